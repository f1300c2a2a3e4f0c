"""What changes clusters, pools and nodes: operators who add and remove them, inventories, contact, cordons."""

from clusters.services.conditions import record_contact, set_condition
from clusters.services.contents import Held, note_contents
from clusters.services.cordons import NodeRef, cordon_node, cordoned_of, fetch_node, node_ref, uncordon_node
from clusters.services.credentials import rotate_credentials
from clusters.services.engines import (
    ClusterGone,
    EngineSettings,
    engine_for,
    forget_engines,
    is_current,
    is_lost,
    refresh_engines,
    register_engine,
)
from clusters.services.inventory import InventoryChange, ensure_local_cluster, read_inventory, record_inventory
from clusters.services.maintenance import begin_windows, end_windows, nodes_to_empty
from clusters.services.placement import edit_pool, taint_node
from clusters.services.registration import (
    CHANGED,
    ClusterChanges,
    NewCluster,
    add_cluster,
    change_cluster,
    check_cluster,
    read_new_cluster,
    remove_cluster,
    with_changes,
)
from clusters.services.removal import Obstacle, register_removal

__all__ = [
    "CHANGED",
    "ClusterChanges",
    "ClusterGone",
    "EngineSettings",
    "Held",
    "InventoryChange",
    "NewCluster",
    "NodeRef",
    "Obstacle",
    "add_cluster",
    "begin_windows",
    "change_cluster",
    "check_cluster",
    "cordon_node",
    "cordoned_of",
    "edit_pool",
    "end_windows",
    "engine_for",
    "ensure_local_cluster",
    "fetch_node",
    "forget_engines",
    "is_current",
    "is_lost",
    "node_ref",
    "nodes_to_empty",
    "note_contents",
    "read_inventory",
    "read_new_cluster",
    "record_contact",
    "record_inventory",
    "refresh_engines",
    "register_engine",
    "register_removal",
    "remove_cluster",
    "rotate_credentials",
    "set_condition",
    "taint_node",
    "uncordon_node",
    "with_changes",
]
