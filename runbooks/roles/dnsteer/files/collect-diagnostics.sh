#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Run each command into a file of its own and pack them. A command that fails is noted in SUMMARY and stops nothing.
# Environment: COLLECT_TO (folder), COLLECT_NAME, COLLECT_DNSTEER, COLLECT_FOLDER (of the specs), COLLECT_LOGS (folder),
# COLLECT_LOG_LINES, DNSTEER_DB; where there is one: DNSTEER_OPENFLOW, DNSTEER_PRIVATE_KEY, DNSTEER_CERTIFICATE, DNSTEER_CA_CERT.
set -u
name=$COLLECT_NAME
base=$COLLECT_TO/$name
mkdir -p "$base"
summary=$base/SUMMARY
failed=0
count=0

# collect FILE COMMAND...: standard output and error into FILE, and a line in SUMMARY.
collect() {
    file=$1
    shift
    timeout 60 "$@" >"$base/$file" 2>&1 </dev/null
    code=$?
    count=$((count + 1))
    case "$code $*" in
        "0 "*) said=ok ;;
        [234]" "*" status "*) said="ok, exit code $code" ;; # which says how the switch is
        *)
            said="FAILED, exit code $code"
            failed=$((failed + 1))
            ;;
    esac
    echo "$file: $said: $*" >>"$summary"
}

# by_tls FILE PROGRAM ARGUMENT...: collect, with what the programs of Open vSwitch need for ssl:.
by_tls() {
    file=$1
    program=$2
    shift 2
    collect "$file" "$program" ${DNSTEER_PRIVATE_KEY:+--private-key="$DNSTEER_PRIVATE_KEY"} \
        ${DNSTEER_CERTIFICATE:+--certificate="$DNSTEER_CERTIFICATE"} ${DNSTEER_CA_CERT:+--ca-cert="$DNSTEER_CA_CERT"} "$@"
}

vsctl() {
    file=$1
    shift
    by_tls "$file" ovs-vsctl --db="$DNSTEER_DB" --timeout=10 "$@"
}

# lines FILE: the lines that the command of FILE printed, if it worked.
lines() {
    if grep -q "^$1: ok" "$summary"; then
        grep . "$base/$1"
    fi
}

collect versions.txt "$COLLECT_DNSTEER" version
collect uname.txt uname -a
collect time.txt date -u +%Y-%m-%dT%H:%M:%SZ
collect addresses.txt ip address
collect routes.txt ip route

collect ovs-version.txt ovs-vswitchd --version
vsctl ovs-vsctl-show.txt show
vsctl ovs-vsctl-list-bridge.txt list bridge
vsctl ovs-vsctl-list-interface.txt list interface
vsctl ovs-vsctl-list-open-vswitch.txt list open_vswitch
vsctl bridges.txt list-br
vsctl bridges-of-dnsteer.txt --bare --columns=name find bridge external_ids:dnsteer=bridge
bridges=bridges.txt
if [ -n "${DNSTEER_OPENFLOW:-}" ]; then # it is that of dnsteer's
    bridges="bridges-of-dnsteer.txt"
fi
for bridge in $(lines "$bridges"); do
    for what in flows groups ports ports-desc group-stats; do
        by_tls "$what-$bridge.txt" ovs-ofctl -O OpenFlow15 --timeout=30 "dump-$what" "${DNSTEER_OPENFLOW:-$bridge}"
    done
done

# It must be said which bridge where there are several.
for bridge in $(lines bridges-of-dnsteer.txt); do
    collect "spec-$bridge.yaml" "$COLLECT_DNSTEER" show current --bridge "$bridge"
    collect "history-$bridge.json" "$COLLECT_DNSTEER" history --json --bridge "$bridge"
    collect "status-$bridge.json" "$COLLECT_DNSTEER" status --json --bridge "$bridge"
done
for file in spec.yaml next.yaml plan; do
    if [ -e "$COLLECT_FOLDER/$file" ]; then
        collect "folder-$file" cat "$COLLECT_FOLDER/$file"
    else
        echo "folder-$file: not there: $COLLECT_FOLDER/$file" >>"$summary"
    fi
done

collect dpif-show.txt ovs-appctl -T 10 dpif/show
collect dpctl-dump-flows.txt ovs-appctl -T 10 dpctl/dump-flows
collect coverage-show.txt ovs-appctl -T 10 coverage/show
collect upcall-show.txt ovs-appctl -T 10 upcall/show
for log in ovs-vswitchd ovsdb-server; do
    collect "$log.log" tail -n "$COLLECT_LOG_LINES" "$COLLECT_LOGS/$log.log"
done
if command -v journalctl >/dev/null; then
    for unit in dnsteer-agent dnsteer-ext dnsteer-restore dnsteer-reconcile ovs-vswitchd; do
        collect "journal-$unit.txt" journalctl --no-pager --output=short-iso -n "$COLLECT_LOG_LINES" -u "$unit"
    done
else
    echo "journals: not there: no systemd" >>"$summary"
fi

echo "$count commands, $failed failed"
grep FAILED "$summary"
tar -C "$COLLECT_TO" -czf "$COLLECT_TO/archive.tar.gz" "$name"
