// Pages that nobody looks at need no stream. Browsers allow few connections to a site: with six of our pages open
// in tabs, a seventh would wait for ever. So a stream rests while its page is hidden, and begins anew when it is seen.

{
  class Resting extends EventTarget {
    #url;
    #source = null;
    #passed = new Map();
    #isOver = false;
    onopen = null;
    onerror = null;

    constructor(url) {
      super();
      this.#url = url;
      document.addEventListener("visibilitychange", this.#follow);
      addEventListener("pageshow", this.#follow);
      addEventListener("pagehide", this.#rest);
      this.#follow();
    }

    #follow = () => {
      if (document.hidden) this.#rest();
      else if (this.#source === null && !this.#isOver) this.#begin();
    };

    #rest = () => {
      this.#source?.close();
      this.#source = null;
    };

    #begin() {
      this.#source = new EventSource(this.#url);
      this.#source.onopen = (event) => this.onopen?.(event);
      this.#source.onerror = (event) => {
        // Refused for good: whoever listens makes another, and this one is done.
        if (this.#source?.readyState === EventSource.CLOSED) this.#leave();
        this.onerror?.(event);
      };
      for (const [name, pass] of this.#passed) this.#source.addEventListener(name, pass);
    }

    #leave() {
      this.#isOver = true;
      document.removeEventListener("visibilitychange", this.#follow);
      removeEventListener("pageshow", this.#follow);
      removeEventListener("pagehide", this.#rest);
    }

    get readyState() {
      return this.#source?.readyState ?? (this.#isOver ? EventSource.CLOSED : EventSource.CONNECTING);
    }

    addEventListener(name, listener) {
      super.addEventListener(name, listener);
      if (this.#passed.has(name)) return;
      const pass = (event) => this.dispatchEvent(new MessageEvent(name, { data: event.data }));
      this.#passed.set(name, pass);
      this.#source?.addEventListener(name, pass);
    }

    close() {
      this.#leave();
      this.#rest();
    }
  }

  htmx.createEventSource = (url) => new Resting(url);
}
