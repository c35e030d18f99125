"""The receiver page of a server, told by a worker that is another process with settings of its own."""

from pathlib import Path

import httpx2
from test_first_minute import Newcomer

from support.processes import CommandRunner, Service, answers, free_port, until


def test_a_worker_beside_the_server_tells_the_receiver_page(
    home: Path, tmp_path: Path, conninfo: str, command_runner: CommandRunner
) -> None:
    settings = {"QUILLPOST_HOME": str(home), "QUILLPOST_DATABASE_URL": conninfo}
    arguments = ("--welcome", "--no-jobs")
    service = Service(tmp_path / "service.log", *arguments, port=free_port(), settings=settings)
    try:
        # Ready it is not before somebody does its work.
        until(lambda: answers(service.url, "/health"), what="the server alive")
        newcomer = Newcomer(service)
        [hook] = newcomer.client.webhooks.list()
        worker = command_runner.start("work", settings=settings)
        event = newcomer.client.webhooks.test(hook["id"])["event_id"]
        shown = until(lambda: httpx2.get(f"{newcomer.receiver_url}/events").json()["events"], what="the event shown")
        assert [(each["event_id"], each["verified"]) for each in shown] == [(event, True)]
        assert worker.stop() == 0, worker.output
        [delivery] = newcomer.client.webhooks.deliveries(hook["id"])
        assert (delivery["status"], delivery["attempts"]) == ("delivered", 1)
        newcomer.leave()
    finally:
        service.kill()
