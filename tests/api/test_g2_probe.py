import collections, os, json
import schemathesis
from described import DESCRIPTION
from schemathesis.engine import Status, events, from_schema
from starlette.testclient import TestClient
from shared_service import shared_service
from makers import make_account
from quillpost.web import create_app

def test_probe(postgres, template, tmp_path_factory):
    n=int(os.environ.get("N","10")); rx=os.environ.get("RX",".")
    with shared_service(postgres, template, tmp_path_factory.mktemp("probe")) as parts:
        app=create_app(parts)
        with TestClient(app) as http:
            token=make_account(parts, http, "o@example.com").token
        cfg=schemathesis.Config.from_dict({"headers":{"Authorization":f"Bearer {token}"},
          "generation":{"mode":os.environ.get("MODE","all"),"max-examples":n,"database":"none","no-shrink":True},
          "phases":{k:{"enabled":k in os.environ.get("PH","examples,coverage,fuzzing")} for k in ("examples","coverage","fuzzing","stateful")}})
        schema=schemathesis.openapi.from_asgi("/openapi.json",app,config=cfg).include(path_regex=rx).exclude(path_regex=r"/(estimate|stored_send)/|/send/(?!postcard)")
        found=collections.OrderedDict()
        for e in from_schema(schema).execute():
            if isinstance(e, events.NonFatalError): found.setdefault(f"ERR {e.label}",[]).append(e.info.format())
            if isinstance(e, events.FatalError): raise e.exception
            if isinstance(e, events.ScenarioFinished):
                for cid, checks in e.recorder.checks.items():
                    for c in checks:
                        if c.status is Status.FAILURE and c.failure_info:
                            r=e.recorder.interactions[cid].response
                            body=r.content.decode()[:300] if r else ''
                            found.setdefault(f"{e.recorder.label} {c.name} {r.status_code if r else ''}",[]).append((c.failure_info.code_sample[-300:], str(c.failure_info.failure)[:200] if c.name!='positive_data_acceptance' else '', body))
        with open("/tmp/g2_probe.txt","w") as f:
            for k,v in found.items():
                print("##",k,len(v),file=f)
                seen=set()
                for x in v:
                    if str(x[-1]) in seen: continue
                    seen.add(str(x[-1]))
                    if len(seen)>4: break
                    print("   ",x,file=f)
