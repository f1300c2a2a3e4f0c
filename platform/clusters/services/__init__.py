"""What changes clusters, pools and nodes: inventories, contact, and an operator's cordon."""

from clusters.services.conditions import record_contact, set_condition
from clusters.services.contents import Held, note_contents
from clusters.services.cordons import NodeRef, cordon_node, cordoned_of, fetch_node, node_ref, uncordon_node
from clusters.services.engines import EngineSettings, engine_for, forget_engines, register_engine
from clusters.services.inventory import InventoryChange, ensure_local_cluster, read_inventory, record_inventory
from clusters.services.maintenance import begin_windows, end_windows, nodes_to_empty
from clusters.services.placement import edit_pool, taint_node

__all__ = [
    "EngineSettings",
    "Held",
    "InventoryChange",
    "NodeRef",
    "begin_windows",
    "cordon_node",
    "cordoned_of",
    "edit_pool",
    "end_windows",
    "engine_for",
    "ensure_local_cluster",
    "fetch_node",
    "forget_engines",
    "node_ref",
    "nodes_to_empty",
    "note_contents",
    "read_inventory",
    "record_contact",
    "record_inventory",
    "register_engine",
    "set_condition",
    "taint_node",
    "uncordon_node",
]
