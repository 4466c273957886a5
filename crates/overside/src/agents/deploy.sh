# Installs an agent. `overside agents deploy` sends this over ssh to the machine that is to have it, and
# after it, on standard input, the files. Prints lines KEY=VALUE; what is wrong goes to stderr.
set -eu
umask 077
architecture=$1 listen=$2 whose=$3
shift 3

fail() {
    echo "$1" >&2
    exit 1
}

here=$(uname -m)
[ "$here" = "$architecture" ] ||
    fail "this machine is $here, and the command is for $architecture: give --binary dist/overside-$here (\`make dist\`)"
if [ -z "$listen" ]; then
    # Where ssh reached this machine.
    listen=$(echo "${SSH_CONNECTION:-}" | cut -d ' ' -f 3)
    case $listen in
    '') fail "sshd does not say at which address it was reached: give --listen" ;;
    *:*) listen="[$listen]:7433" ;;
    *) listen=$listen:7433 ;;
    esac
fi

root='' owner=$(id -un) settings=$HOME/.config/overside programs=$HOME/.local/bin
if [ "$whose" = system ]; then
    owner=overside settings=/etc/overside programs=/usr/local/bin
    if [ "$(id -u)" != 0 ]; then
        root='sudo -n'
        $root true 2>/dev/null ||
            fail 'this takes root, or sudo without a password; --user needs neither, but there is no service then'
    fi
    id -u $owner >/dev/null 2>&1 ||
        $root useradd --system --no-create-home --shell /usr/sbin/nologin $owner
fi

files=$(mktemp -d)
trap 'rm -rf "$files"' EXIT
for file in overside ca.pem agent.pem agent.key overside-agent.service; do
    head -c "$1" >"$files/$file"
    shift
done
cd "$files"
group=$(id -gn $owner)
$root install -d -m 0755 $programs
$root install -m 0755 overside $programs/overside.new
$programs/overside.new --version >/dev/null ||
    fail "the command does not run on this machine: build it here, or for an older system (\`make dist\`)"
$root mv $programs/overside.new $programs/overside
$root install -d -m 0750 -g "$group" $settings
$root install -d -m 0700 -o $owner -g "$group" $settings/keys
$root install -m 0600 -o $owner -g "$group" ca.pem agent.pem agent.key $settings/keys/
echo "listen=$listen"

if [ "$whose" = system ] && [ -d /run/systemd/system ]; then
    echo "OVERSIDE_LISTEN=$listen" >agent.env
    [ ! -f $settings/agent.env ] || $root sed '/^OVERSIDE_LISTEN=/d' $settings/agent.env >>agent.env
    $root install -m 0644 agent.env $settings/
    $root install -m 0644 overside-agent.service /etc/systemd/system/
    $root systemctl daemon-reload
    $root systemctl enable --quiet overside-agent
    $root systemctl restart overside-agent
    echo "log=$root journalctl -u overside-agent"
    exit 0
fi

# No service: a process that ends with this machine, in the place of the one before.
before=$($root cat $settings/agent.pid 2>/dev/null || echo none)
case $($root readlink "/proc/$before/exe" || :) in
"$programs/overside"*)
    $root kill "$before"
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        ! $root kill -0 "$before" 2>/dev/null || sleep 0.5
    done
    ;;
esac
as_owner=''
[ "$whose" = user ] || as_owner="setpriv --reuid $owner --regid $group --init-groups"
$root rm -f $settings/agent.pid
# shellcheck disable=SC2016 # it is for the other shell
$root sh -c 'cd /; echo $$ >"$1/agent.pid"; exec >"$1/agent.log" 2>&1; shift; exec setsid "$@"' \
    sh $settings $as_owner $programs/overside agent --listen "$listen" --keys $settings/keys \
    </dev/null >/dev/null 2>&1 &
for _ in 1 2 3 4 5 6 7 8 9 10; do
    $root test -s $settings/agent.pid || sleep 0.5
done
echo "log=$root cat $settings/agent.log"
echo "process=$($root cat $settings/agent.pid)"
