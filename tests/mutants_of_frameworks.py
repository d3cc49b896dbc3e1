"""The bugs that mutants.py plants in resources, middleware and the frameworks around us, and the tests that catch each."""

from __future__ import annotations

from mutants_of_postgres import Planted

FRAMEWORKS: list[Planted] = [
    ("resources: closed in the order of their opening", "resources.py",
     "_closed(*managers.pop())", "_closed(*managers.pop(0))", ("resources: opposite",)),
    ("resources: who cancels while one is closed leaves the others open", "resources.py",
     "        except BaseException as error:\n            interrupted", "        except Exception as error:\n            interrupted", ("resources: however_often",)),
    ("resources: nobody hears that closing was cancelled", "resources.py",
     "    if interrupted is not None:", "    if False:", ("resources: however_often",)),
    ("resources: what was opened before the one that cannot be stays open", "resources.py",
     "        finally:\n            await _close(managers)\n",
     "        except GeneratorExit:\n            pass\n", ("resources: does_not_open",)),
    ("resources: one that does not close keeps the others open", "resources.py",
     "    except Exception:\n        log.exception(\"the resource", "    except ZeroDivisionError:\n        log.exception(\"the resource",
     ("resources: does_not_close",)),
    ("resources: a block begins beside a worker that has ended", "app.py",
     "            if not task.done():\n                yield worker", "            yield worker", ("resources: does_not_open",)),
    ("middleware: it makes a success of a failure", "middleware.py",
     "            _raised(layer, steps, error)\n            raise\n        _returned(layer, steps, value)\n        return value\n\n    return handler\n\n\ndef _async",
     "            _raised(layer, steps, error)\n            return None\n        _returned(layer, steps, value)\n        return value\n\n    return handler\n\n\ndef _async",
     ("middleware: cannot_make",)),
    ("middleware: the last declared is the outermost", "middleware.py",
     "for layer in reversed(self.layers):", "for layer in self.layers:", ("middleware: outermost",)),
    ("middleware: a child process goes without", "worker/processes/child.py",
     "_interruptible(execution, task.handler, args", "_interruptible(execution, task.function, args", ("resources: opens_its_own",)),
    ("hooks: the end is told when the resources are closed", "worker/worker.py",
     '        self._tell("worker.stopped")\n', "", ("in_process: of_its_end",)),
    ("django: a job does not join the transaction around it", "django/program.py",
     "        if not wrapper.in_atomic_block:\n", "        if wrapper.in_atomic_block:\n", ("django: projects and sqlite",)),
    ("django: a task is tried again although nobody asked for it", "django/backend.py",
     "Retry(max_retries=0, count_lost=False)", "Retry(max_retries=1, count_lost=False)", ("django: projects and sqlite",)),
    ("django: its file is opened through another library", "drivers/sqlite/driver.py",
     "        check_neighbours(self.path, sqlite)\n", "", ("django: not_opened_through",)),
    ("fastapi: the store is not looked at when the application starts", "asgi.py",
     "            await jobs.client.ready()\n", "", ("fastapi: keeps_the_application",)),
]  # fmt: skip
