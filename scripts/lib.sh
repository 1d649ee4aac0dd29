# Shared by the scripts in this directory; source it, do not run it.
#
# What it settles:
#   ROOT      the checkout
#   RUN       where everything lives that an unprivileged user runs: the private
#             PostgreSQL installation, clusters, copies of the tests
#   RUN_AS    the user that runs it ("" when we are not root and run it ourselves)
#   PG_BIN    the private installation's programs
#
# initdb refuses root, and the checkout may lie where an unprivileged user
# cannot go (/root, umask 077).  So that user never works in the checkout: the
# library and the tests are copied to RUN.  RUN is build/run when the user can
# reach it, else a directory under /var/tmp that is named after the checkout.

set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
PG_CONFIG=${PG_CONFIG:-pg_config}
export PG_CONFIG

die()
{
	echo "$(basename "$0"): $*" >&2
	exit 1
}

# Find the unprivileged user, make it if there is none.
if [ "$(id -u)" -eq 0 ]; then
	RUN_AS=${WORKQ_USER:-workq-build}
	if ! id "$RUN_AS" >/dev/null 2>&1; then
		if command -v useradd >/dev/null; then
			useradd --system --user-group --no-create-home \
				--home-dir /nonexistent --shell /usr/sbin/nologin "$RUN_AS" 2>/dev/null ||
				id "$RUN_AS" >/dev/null 2>&1 ||
				die "could not create the user $RUN_AS"
		else
			RUN_AS=nobody
		fi
	fi
	RUN_GROUP=$(id -gn "$RUN_AS")
else
	RUN_AS=
	RUN_GROUP=
fi

# as_user COMMAND...: run it as the unprivileged user, in RUN or below.  Our lock
# files (8 and 9) are not for servers that live on after us.
as_user()
{
	if [ -n "$RUN_AS" ]; then
		HOME=$RUN/home LANG=C.UTF-8 setpriv --reuid="$RUN_AS" \
			--regid="$RUN_GROUP" --init-groups --inh-caps=-all -- "$@" 8>&- 9>&-
	else
		LANG=C.UTF-8 "$@" 8>&- 9>&-
	fi
}

# user_dir DIR: make a directory that belongs to the unprivileged user.
user_dir()
{
	mkdir -p "$1"
	[ -z "$RUN_AS" ] || chown "$RUN_AS:$RUN_GROUP" "$1"
	chmod "${2:-755}" "$1"
}

settle_run()
{
	local hash dir

	if [ -n "${WORKQ_RUN:-}" ]; then
		RUN=$WORKQ_RUN
	else
		mkdir -p "$ROOT/build"
		RUN=$ROOT/build/run
		if [ -n "$RUN_AS" ]; then
			chmod 755 "$ROOT/build"
			if ! setpriv --reuid="$RUN_AS" --regid="$RUN_GROUP" --init-groups \
				-- test -x "$ROOT/build" 2>/dev/null; then
				hash=$(printf '%s' "$ROOT" | md5sum | cut -c1-12)
				RUN=/var/tmp/workq-$(id -u)-$hash
				# A shared directory: whatever is there must be ours.
				mkdir -m 755 "$RUN" 2>/dev/null || true
				[ ! -L "$RUN" ] && [ -O "$RUN" ] ||
					die "$RUN exists and belongs to somebody else"
			fi
		fi
	fi
	mkdir -p "$RUN"
	chmod 755 "$RUN"
	printf '%s\n' "$RUN" >"$ROOT/build/run-dir"
	user_dir "$RUN/home" 700
}
settle_run

# The private installation mirrors the layout of the real one below their
# common directory, because PostgreSQL finds lib and share relative to bin.
settle_pg()
{
	local common

	# In a shell with a private cluster's environment, pg_config is that of the
	# private installation, which must not be made from itself.
	case $(command -v "$PG_CONFIG") in
	"$RUN"/*) PG_CONFIG=$(type -ap pg_config | grep -vF "$RUN/" | head -n 1) ;;
	esac
	command -v "$PG_CONFIG" >/dev/null ||
		die "no pg_config found: run \"make deps\", or set PG_CONFIG"
	SYS_BIN=$("$PG_CONFIG" --bindir)
	SYS_LIB=$("$PG_CONFIG" --pkglibdir)
	SYS_SHARE=$("$PG_CONFIG" --sharedir)
	[ -x "$SYS_BIN/postgres" ] ||
		die "no server in $SYS_BIN: run \"make deps\", or set PG_CONFIG"
	common=$SYS_BIN
	while [ "${SYS_LIB#"$common"/}" = "$SYS_LIB" ] ||
		[ "${SYS_SHARE#"$common"/}" = "$SYS_SHARE" ]; do
		common=${common%/*}
	done
	PG_PREFIX=$RUN/pg
	PG_BIN=$PG_PREFIX/${SYS_BIN#"$common"/}
	PG_LIB=$PG_PREFIX/${SYS_LIB#"$common"/}
	PG_SHARE=$PG_PREFIX/${SYS_SHARE#"$common"/}
	PGXS_DIR=$(dirname "$("$PG_CONFIG" --pgxs)")/../..
	PGXS_DIR=$(cd "$PGXS_DIR" && pwd -P)
}
