#!/bin/sh
# A server of MCP in a few lines, which breaks as its first argument says. The second one is a folder: what it
# hears is written to `heard`, and how often it was started to `starts`.
how=$1
dir=$2
echo start >>"$dir/starts"
starts=$(wc -l <"$dir/starts")
answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
text() { printf '{"content":[{"type":"text","text":"%s"}]}' "$1"; }
case $how in
  ends) printf '\033[31mcannot read the notes\033[0m\n' >&2; exit 3 ;;
  chatters) echo "Starting the server, version 1" ;;
  ends_later) [ "$starts" -gt 1 ] && { echo "cannot read the notes" >&2; exit 3; } ;;
  spawns) sleep 1000 & echo $! >"$dir/grandchild" ;;
  loads) echo "loading the notes" >&2; sleep 1000 ;;
esac
while read -r line; do
  echo "$line" >>"$dir/heard"
  id=${line#*\"id\":}
  id=${id%%[,\}]*}
  case $line in
    *'"initialize"'*)
      answer '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"notes","version":"1"}}' ;;
    *'"tools/list"'*)
      name=search hints='{"readOnlyHint":true}'
      case $how-$starts in
        forgets-2) name=find ;;
        writes-* | writes_and_dies-*) hints='{"readOnlyHint":false}' ;;
      esac
      answer '{"tools":[{"name":"'$name'","annotations":'$hints',"inputSchema":{"type":"object","properties":{"query":{"type":"string"}},"required":["query"]}},{"name":"forget","inputSchema":{"type":"object"}}]}' ;;
    *'"tools/call"'*)
      case $how-$starts in
        dies-* | dies_once-1 | ends_later-1 | forgets-1 | writes_and_dies-*) echo "out of ink" >&2; exit 4 ;;
        hangs-*) ;;
        garbage-*) answer '{"weather":"fine"}' ;;
        odd-*) answer '{"structuredContent":{"results":[{"'"$NOTES_KEY-$(head -c 200000 /dev/zero | tr '\0' x)"'":1}]}}' ;;
        huge-*) head -c 100000 /dev/zero | tr '\0' x ;;
        fails-*) answer '{"content":[{"type":"text","text":"the index is being built"}],"isError":true}' ;;
        repeats-*) answer '{"content":[{"type":"text","text":"no such key: '"$NOTES_KEY"'"}],"isError":true}' ;;
        forbids-*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":"no such key: %s"}}\n' "$id" "$NOTES_KEY" ;;
        refuses-*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"query is too short"}}\n' "$id" ;;
        env-*) answer "$(text "$(env | sed 's/=.*//' | sort | tr '\n' ' ')")" ;;
        *) answer '{"content":[{"type":"text","text":"The Seine is a river."},{"type":"text","text":"The Loire is one, too."}]}' ;;
      esac ;;
  esac
done
echo end >>"$dir/heard"
