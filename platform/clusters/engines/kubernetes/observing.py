"""`observe`: what gates and pods say together, and what is due of them: gangs that can start, stops that were not carried
through, tasks that will never begin, pods that no gate owns any more. The next look finds all of it again, whichever process
was killed meanwhile."""

from __future__ import annotations

import contextlib
import logging
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial

from clusters.engines.interface import AttemptObservation, Observations, TaskName, TaskObservation, TaskState
from clusters.engines.kubernetes import manifests, names, states
from clusters.engines.kubernetes.api import AlreadyExists, Api, ApiRefused, Conflict, Json, NotFound
from clusters.engines.kubernetes.cache import Cache, by_label
from clusters.engines.kubernetes.carrying import Carrier
from clusters.engines.kubernetes.config import OBJECT_KINDS, PODS, KubernetesConfig
from clusters.engines.kubernetes.events import StartEvents
from clusters.engines.kubernetes.gates import Gates
from clusters.engines.kubernetes.patience import Patience
from clusters.engines.kubernetes.pods import Pods, in_order, in_parallel
from clusters.engines.kubernetes.record import Gate, GateTask, GateUnreadable, PodId
from clusters.engines.kubernetes.remembering import GateReader, Settled
from clusters.engines.kubernetes.stopping import Stopper
from clusters.engines.kubernetes.whole_lists import Lists, WholeLists

logger = logging.getLogger("berth.engines.kubernetes")

_BEGIN_SECONDS = 20.0  # How long after a gang's first end its other tasks may begin.
_ASK_SECONDS = 5.0
_ASKED_MAX = 3  # Objects without pods in one look: where a queue of the cluster's is full there are hundreds of them.
_ASKED_FOR_PODS_MAX = 20  # Attempts of which a look asks for pods; one that would have to ask for more is not complete.
_DRIVEN_MAX = 200  # Attempts for which something is done in one look; the others come with the next.


class AttemptView:
    """Looks at one cluster."""

    def __init__(
        self,
        api: Api,
        config: KubernetesConfig,
        caches: tuple[Cache, Cache],
        gates: Gates,
        pods: Pods,
        stopper: Stopper,
        carrier: Carrier,
    ) -> None:
        self._api, self._config = api, config
        self._gate_cache, self._pod_cache = caches
        self._gates, self._pods, self._stopper, self._carrier = gates, pods, stopper, carrier
        self._asked_at: dict[uuid.UUID, float] = {}
        self._patience = Patience(config)
        self._events = StartEvents(api)
        self._reader = GateReader(config.cluster_id)
        self._settled = Settled()
        self._lists = WholeLists(*caches)
        self._asked_for_pods = 0
        self._released: dict[uuid.UUID, str] = {}  # Gates that were seen as released with pods that were not let go.

    def observe(self) -> Observations:
        """Raises EngineUnreachable and ApiRefused. The answer is complete where new lists are there: of a new cluster and of a
        small one always, of a large one as often as they take a twentieth of the time; see `whole_lists`."""
        for cache in (self._gate_cache, self._pod_cache):
            cache.start()
        lists = self._lists.take()
        complete = lists is not None
        if lists is not None:
            read_at = lists.read_at
        else:
            silence = max(cache.heard_seconds_ago() for cache in (self._gate_cache, self._pod_cache))
            read_at = datetime.now(UTC) - timedelta(seconds=silence)
        live, unreadable = self._read_gates()
        pods = by_label(self._pod_cache.objects().values(), names.ATTEMPT)
        self._patience.keep({pod["metadata"]["uid"] for found in pods.values() for pod in found})
        if self._drive(live, pods, complete=complete):
            live, unreadable = self._read_gates()
            pods = by_label(self._pod_cache.objects().values(), names.ATTEMPT)
        self._events.look(pod for found in pods.values() for pod in found)
        self._asked_for_pods = 0
        looked = [self._look(gate, pods, lists) for gate in live.values()]
        items = [item for item in looked if item is not None]
        complete = complete and len(items) == len(looked)
        self._settled.keep(live)
        self._released = {attempt_id: version for attempt_id, version in self._released.items() if attempt_id in live}
        items += [AttemptObservation(attempt_id, ()) for attempt_id in unreadable if attempt_id not in live]
        items += [
            self._look_without_gate(key, found) for key, found in pods.items() if complete and self._is_stray(key, found, live)
        ]
        return Observations(tuple(items), cursor=read_at.isoformat(), complete=complete, read_at=read_at)

    # --- Looking -----------------------------------------------------------------------------------------------------

    def _read_gates(self) -> tuple[dict[uuid.UUID, Gate], list[uuid.UUID]]:
        """The live gates, and attempts whose gate cannot be read: they may run, so they are told of, without tasks."""
        live, unreadable = {}, []
        documents = self._gate_cache.objects()
        for key, gate in self._reader.read(documents).items():
            if isinstance(gate, GateUnreadable):
                logger.warning("gate_unreadable", extra={"error": str(gate)})
                with contextlib.suppress(ValueError):
                    unreadable.append(
                        uuid.UUID(((documents[key].get("metadata") or {}).get("labels") or {}).get(names.ATTEMPT, ""))
                    )
            elif not gate.is_tombstone:
                live[gate.attempt_id] = gate
        return live, unreadable

    def _look(self, gate: Gate, pods: dict[str, list[Json]], lists: Lists | None) -> AttemptObservation | None:
        """None: pods are missing and the view is not good enough to say that they are gone."""
        own = pods.get(str(gate.attempt_id), ())
        if (known := self._settled.find(gate, own)) is not None:
            return known
        places = in_order(gate, own)
        if gate.has_pods and None in places:
            if lists is None:
                return None
            if int(gate.version or 0) > lists.gate_version:  # Released since: of its pods the watch may not have told yet.
                self._asked_for_pods += 1
                if self._asked_for_pods > _ASKED_FOR_PODS_MAX:
                    return None
                places = in_order(gate, self._pods.of(gate))
        tasks = [self._events.explain(states.observe_task(gate, place, pod), pod) for place, pod in enumerate(places)]
        observation = AttemptObservation(gate.attempt_id, tuple(_hold_back(gate, tasks)), gate.labels)
        self._settled.note(gate, own, observation)
        return observation

    def _is_stray(self, key: str, pods: Sequence[Json], live: dict[uuid.UUID, Gate]) -> bool:
        """Whether pods run of an attempt that has no live gate, as the API server itself says."""
        try:
            attempt_id = uuid.UUID(key)
        except ValueError:
            return False
        return attempt_id not in live and any(not states.is_over(pod) and not states.is_gated(pod) for pod in pods)

    def _look_without_gate(self, key: str, pods: Sequence[Json]) -> AttemptObservation:
        """The pods' own account, where their gate was removed: they run, so the attempt is not gone."""
        tasks = []
        for pod in pods:
            metadata = pod.get("metadata") or {}
            notes = metadata.get("annotations") or {}
            name = TaskName(str(notes.get(names.ROLE, "")), int(notes.get(names.INDEX, "0")))
            gate = Gate(uuid.UUID(key), released=True, tasks=(GateTask(name),))
            tasks.append(states.observe_task(gate, 0, pod))
        return AttemptObservation(uuid.UUID(key), tuple(tasks))

    # --- What is due -------------------------------------------------------------------------------------------------

    def _drive(self, live: dict[uuid.UUID, Gate], pods: dict[str, list[Json]], *, complete: bool) -> bool:
        """Do what is due; whether anything was done. What the API server refuses is tried again with the next look."""
        done, asked = 0, self._to_ask(live)
        for gate in live.values():
            if done >= _DRIVEN_MAX:
                break
            found = pods.get(str(gate.attempt_id), [])
            if self._settled.find(gate, found) is not None:
                continue
            try:
                done += self._drive_one(gate, found, is_asked=gate.attempt_id in asked)
            except (ApiRefused, GateUnreadable) as error:
                logger.info("drive_failed", extra={"attempt_id": str(gate.attempt_id), "error": str(error)})
        if complete:
            for key, found in pods.items():
                with contextlib.suppress(ValueError, ApiRefused, GateUnreadable):
                    if done < _DRIVEN_MAX and uuid.UUID(key) not in live:
                        done += self._sweep(uuid.UUID(key), found)
        return done > 0

    def _drive_one(self, gate: Gate, pods: list[Json], *, is_asked: bool) -> bool:
        if _waits_for_controller(gate):
            return self._choose(gate, pods, is_asked=is_asked)
        pods = [pod for pod in in_order(gate, pods) if pod is not None]
        alive = [pod for pod in pods if not states.is_over(pod)]
        if not gate.released or not alive:
            return False
        if gate.stop is not None:
            return self._stopper.end_due(gate, alive)
        gated = [pod for pod in alive if states.is_gated(pod)]
        if gated:
            return self._release(gate, gated)
        if self._give_up(gate, alive):
            return True
        if gate.code:
            self._carrier.carry(gate.code, alive)
        return gate.together and self._start_together(gate, pods, alive)

    def _choose(self, gate: Gate, pods: list[Json], *, is_asked: bool) -> bool:
        """Once a controller has made a pod for every task: note which, by UID, and only then let them go. Where its object
        is gone meanwhile there will be none; that is asked now and then."""
        waiting = [pod for pod in pods if states.is_gated(pod) and not pod["metadata"].get("deletionTimestamp")]
        by_task: dict[TaskName, Json] = {}
        for pod in sorted(waiting, key=_age):
            if (name := _task_of(pod)) is not None:
                by_task.setdefault(name, pod)
        found = [by_task.get(task.name) for task in gate.tasks]
        if None not in found:
            chosen = tuple(PodId(pod["metadata"]["name"], pod["metadata"]["uid"]) for pod in found if pod is not None)
        elif is_asked and self._pods.find_parent(gate) is None:
            chosen = tuple(PodId() for _ in gate.tasks)
        else:
            return False
        with contextlib.suppress(Conflict, NotFound):
            self._gates.replace(replace(gate, chosen=chosen))
            for pod in (pod for pod in found if None not in found and pod is not None):
                self._pods.release(gate.namespace, pod["metadata"]["name"], pod["metadata"]["uid"])
        return True

    def _release(self, gate: Gate, gated: Sequence[Json]) -> bool:
        """Let pods go that were not by the next look: most callers are about to do it when the gate is first seen as released."""
        if self._released.get(gate.attempt_id) != gate.version:
            self._released[gate.attempt_id] = gate.version
            return False
        uids = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in gated}
        in_parallel(lambda name: self._pods.release(gate.namespace, name, uids[name]), list(uids), self._config.parallel)
        return True

    def _to_ask(self, live: Mapping[uuid.UUID, Gate]) -> set[uuid.UUID]:
        """The attempts without pods whose objects are to be asked for again in this look: those that were not for longest."""
        now = time.monotonic()
        known = {key: self._asked_at.get(key, -_ASK_SECONDS) for key, gate in live.items() if _waits_for_controller(gate)}
        due = sorted((at, key) for key, at in known.items() if now - at >= _ASK_SECONDS)[:_ASKED_MAX]
        self._asked_at = known | {key: now for _, key in due}
        return {key for _, key in due}

    def _start_together(self, gate: Gate, pods: list[Json], alive: list[Json]) -> bool:
        """Once every task has an address: the object that all containers wait for, then a word to their kubelets."""
        asleep = [pod for pod in alive if names.STARTED not in (pod["metadata"].get("annotations") or {})]
        if not asleep or len(pods) < len(gate.tasks):
            return False
        places = in_order(gate, pods)
        addresses = [str((pod or {}).get("status", {}).get("podIP", "")) for pod in places]
        if not all(addresses) or (gate.code and not all(map(states.has_code, pods))):
            return False
        document = manifests.start(gate, gate.hosts or addresses, self._config)
        with contextlib.suppress(AlreadyExists):
            self._api.create(f"/api/v1/namespaces/{gate.namespace}/configmaps", document)
        wake = partial(self._pods.wake, gate.namespace)
        in_parallel(wake, [pod["metadata"]["name"] for pod in asleep], self._config.parallel)
        return True

    def _give_up(self, gate: Gate, alive: list[Json]) -> bool:
        """End tasks that cannot begin, with the reason on the gate: images that cannot be had, nodes that take nothing."""
        verdicts: dict[TaskName, str] = {}
        ending = []
        for place, pod in enumerate(in_order(gate, alive)):
            trouble = states.find_trouble(pod) if pod is not None else None
            if pod is None or trouble is None or gate.tasks[place].name in gate.verdicts:
                continue
            lasting = self._patience.find_lasting(pod["metadata"]["uid"], trouble, datetime.now(UTC))
            if lasting is not None:
                verdicts[gate.tasks[place].name] = f"{lasting.code}: {lasting.text}"
                ending.append(pod)
        if verdicts:
            with contextlib.suppress(Conflict, NotFound):
                self._gates.replace(replace(gate, verdicts={**gate.verdicts, **verdicts}))
                for pod in ending:
                    self._pods.end(pod, datetime.now(UTC))
        return bool(verdicts)

    def _sweep(self, attempt_id: uuid.UUID, pods: list[Json]) -> bool:
        """Pods without a live gate in the cache: ask for the gate itself. With a tombstone they go; without one they are left. Of
        those that only finalizers of others keep there is nothing more to do."""
        if all(map(_is_let_go, pods)):
            return False
        gate = self._gates.read(attempt_id)
        if gate is None or not gate.is_tombstone:
            return False
        made = [pod["metadata"] for pod in pods if not names.is_pod_name(pod["metadata"]["name"], attempt_id)]
        for kind in OBJECT_KINDS if made else ():  # A caller that slept has made its object after the end, as it was chosen then.
            with contextlib.suppress(NotFound):
                if kind != PODS:
                    self._pods.remove_parent(kind, made[0]["namespace"], attempt_id)
        for pod in pods:
            if states.is_over(pod) or states.is_gated(pod):
                self._pods.let_go(pod)
            else:
                self._pods.end(pod, datetime.now(UTC))
        return True


def _waits_for_controller(gate: Gate) -> bool:
    """Whether a controller has not made all its pods yet, as far as was seen."""
    return bool(gate.parent) and gate.released and not gate.chosen


def _is_let_go(pod: Json) -> bool:
    metadata = pod["metadata"]
    return bool(metadata.get("deletionTimestamp")) and names.FINALIZER not in (metadata.get("finalizers") or [])


def _task_of(pod: Json) -> TaskName | None:
    """The task that a controller's pod is, by the annotations of its template."""
    notes = pod["metadata"].get("annotations") or {}
    index = str(notes.get(names.INDEX, ""))
    return TaskName(str(notes[names.ROLE]), int(index)) if names.ROLE in notes and index.isdecimal() else None


def _age(pod: Json) -> tuple[str, str]:
    """The oldest first."""
    return str(pod["metadata"].get("creationTimestamp", "")), str(pod["metadata"].get("uid", ""))


def _hold_back(gate: Gate, tasks: Sequence[TaskObservation]) -> list[TaskObservation]:
    """Of a gang that starts, say no end before all have begun: the containers of a gang begin within seconds, and a task that
    is over by then has run beside the others all the same. Only for so long; a task that does not begin holds no other task's
    end back."""
    waits = any(task.state is TaskState.PENDING for task in tasks)
    if not waits or not gate.together or gate.stop is not None or gate.verdicts:
        return list(tasks)
    latest = datetime.now(UTC) - timedelta(seconds=_BEGIN_SECONDS)
    return [
        replace(task, state=TaskState.RUNNING, exit=None, ended_at=None)
        if task.state is TaskState.ENDED and task.started_at is not None and task.ended_at is not None and task.ended_at > latest
        else task
        for task in tasks
    ]
