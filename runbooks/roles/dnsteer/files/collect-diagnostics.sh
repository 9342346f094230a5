#!/bin/sh
# Run each command into a file of its own and pack them. A command that fails is noted in SUMMARY and stops nothing.
# Environment: COLLECT_TO (folder), COLLECT_NAME, COLLECT_DNSTEER, COLLECT_LOGS (folder), COLLECT_LOG_LINES, DNSTEER_DB.
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
    said=ok
    if [ "$code" -ne 0 ]; then
        said="FAILED, exit code $code"
        failed=$((failed + 1))
    fi
    echo "$file: $said: $*" >>"$summary"
}

collect versions.txt "$COLLECT_DNSTEER" version
collect spec.yaml "$COLLECT_DNSTEER" show current
collect history.json "$COLLECT_DNSTEER" history --json
collect status.json "$COLLECT_DNSTEER" status --json
collect uname.txt uname -a
collect time.txt date -u +%Y-%m-%dT%H:%M:%SZ
collect addresses.txt ip address
collect routes.txt ip route

collect ovs-version.txt ovs-vswitchd --version
collect ovs-vsctl-show.txt ovs-vsctl --db="$DNSTEER_DB" --timeout=10 show
collect ovs-vsctl-list-bridge.txt ovs-vsctl --db="$DNSTEER_DB" --timeout=10 list bridge
collect ovs-vsctl-list-interface.txt ovs-vsctl --db="$DNSTEER_DB" --timeout=10 list interface
collect ovs-vsctl-list-open-vswitch.txt ovs-vsctl --db="$DNSTEER_DB" --timeout=10 list open_vswitch
collect bridges.txt ovs-vsctl --db="$DNSTEER_DB" --timeout=10 list-br
if grep -q '^bridges.txt: ok' "$summary"; then
    while read -r bridge; do
        for what in flows groups ports ports-desc group-stats; do
            collect "$what-$bridge.txt" ovs-ofctl -O OpenFlow15 --timeout=30 "dump-$what" "$bridge"
        done
    done <"$base/bridges.txt"
fi

collect dpif-show.txt ovs-appctl -T 10 dpif/show
collect dpctl-dump-flows.txt ovs-appctl -T 10 dpctl/dump-flows
collect coverage-show.txt ovs-appctl -T 10 coverage/show
collect upcall-show.txt ovs-appctl -T 10 upcall/show
for log in ovs-vswitchd ovsdb-server; do
    collect "$log.log" tail -n "$COLLECT_LOG_LINES" "$COLLECT_LOGS/$log.log"
done

echo "$count commands, $failed failed"
grep FAILED "$summary"
tar -C "$COLLECT_TO" -czf "$COLLECT_TO/archive.tar.gz" "$name"
