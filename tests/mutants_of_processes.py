"""The bugs that mutants.py plants between a worker and its processes, and the tests that are to catch each."""

from __future__ import annotations

from mutants_of_postgres import Planted

HERE = "worker/processes/"
PROCESSES: list[Planted] = [
    ("children: a program that stops half-way in order has succeeded", HERE + "running.py",
     "if gone.code == 0 and not stopped:", "if gone.code == 0:", ("lines: ends_in_order",)),
    ("children: what has no mark is taken for a frame", HERE + "frames.py",
     "if head[: len(MARK)] != MARK or length > LONGEST:", "if length > LONGEST:", ("lines: nobody_has_said",)),
    ("children: a frame of any length is waited for", HERE + "frames.py",
     "if head[: len(MARK)] != MARK or length > LONGEST:", "if head[: len(MARK)] != MARK:", ("lines: nobody_has_said",)),
    ("children: what cannot be decoded ends the worker", HERE + "frames.py",
     "        raise Garbled(str(error)) from error\n", "        raise\n", ("lines: nobody_has_said",)),
    ("children: a garbled line ends the worker", HERE + "calling.py",
     "        except Garbled as error:\n            log.error(",
     "        except ZeroDivisionError as error:\n            log.error(",
     ("lines: nobody_has_said",)),
    ("children: who cannot be understood is not killed", HERE + "calling.py",
     "            self.end()\n            return self._death(await", "            return self._death(await",
     ("lines: nobody_has_said",)),
    ("children: an import that garbles the line ends the worker", HERE + "calling.py",
     "        except Garbled as error:\n            child.end()",
     "        except ZeroDivisionError as error:\n            child.end()",
     ("lines: an_import",)),
    ("children: one that does not understand its worker lives on", HERE + "child.py",
     "            except BaseException:  # the worker is gone", "            except EOFError:  # the worker is gone",
     ("lines: understand_its_worker",)),
    ("children: a job that is too long ends the worker", HERE + "calling.py",
     "        except Exception as error:  # it cannot be put",
     "        except ZeroDivisionError as error:  # it cannot be put",
     ("lines: too_long_for",)),
    ("children: whoever speaks is heard for the run that is on", HERE + "calling.py",
     "if not isinstance(said, OfRun) or said.run != held.job.run_id:", "if not isinstance(said, OfRun):",
     ("lines: for_another_run",)),
    ("children: who does not speak alone gets the next job", HERE + "calling.py",
     "        self._strangers = True\n", "        self._strangers = False\n", ("lines: for_another_run",)),
    ("children: copies keep the line", HERE + "child.py",
     "        os.register_at_fork(after_in_child=self._let_go)\n", "", ("lines: copies_of",)),
    ("children: a copy that returns lives on as a child", HERE + "child.py",
     "                end_as_copy(None)\n", "                pass\n", ("lines: comes_out and returns",)),
    ("children: a copy that raises lives on as a child", HERE + "child.py",
     "                end_as_copy(error)\n", "                pass\n", ("lines: comes_out and raises",)),
]  # fmt: skip
