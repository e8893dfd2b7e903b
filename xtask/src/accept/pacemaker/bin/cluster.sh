# State of the cluster for the four commands, in files below $CLUSTER:
#
#   nodes                        one name per line
#   attributes/<node>/<name>     an attribute of a node; of the cluster itself under crm_config
#   resources/<name>             the node that a resource runs on
#
# A resource on a node that is on standby, or whose health is below zero, is being stopped there. It is gone
# from the node once the file says so; the acceptance run writes it.

set -eu

attribute() {
    cat "$CLUSTER/attributes/$1/$2" 2>/dev/null || true
}

is_member() {
    grep -qxF -- "$1" "$CLUSTER/nodes"
}

is_leaving() {
    [ "$(attribute "$1" standby)" = on ] && return 0
    case $(attribute "$1" '#health-azure') in -*) return 0 ;; esac
    return 1
}

refuse() {
    echo "${0##*/}: $1" >&2
    exit "$2"
}
