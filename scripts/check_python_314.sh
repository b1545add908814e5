#!/usr/bin/env bash
# Runs the test suite on Python 3.14, in a Debian forky root made by debootstrap.
#
#     sudo scripts/check_python_314.sh [DIRECTORY]
#
# The root is made in DIRECTORY and kept there for the next run, or in a temporary directory and removed. Needs the
# superuser and debootstrap. Mounts are undone on every way out.

set -euo pipefail
cd "$(dirname "$0")/.."

root=$(realpath -m "${1:-$(mktemp -d)}")
bundle=${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}

mirror() { # the mirror that this machine's own packages come from
    cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2> /dev/null | grep -v '^ *#' | grep -oE 'https?://[^ ]+/debian/?( |$)' | head -n 1 || true
}

clean_up() {
    for mount in dev proc; do
        ! mountpoint --quiet "$root/$mount" || umount "$root/$mount"
    done
    # Never through a mount: what is bound there is this machine's own.
    [ "$keep" = yes ] || rm -rf --one-file-system "$root"
}
keep=${1:+yes}
trap clean_up EXIT

if [ ! -x "$root/usr/bin/python3" ]; then
    # debootstrap knows a release by a script of its name; older versions of it have none for forky, which is made like sid.
    scripts=$(mktemp -d)
    cp -r /usr/share/debootstrap/. "$scripts"
    ln -sf sid "$scripts/scripts/forky"
    url=$(mirror)
    DEBOOTSTRAP_DIR=$scripts debootstrap --variant=minbase --include=python3-venv,python3-pip,ca-certificates \
        forky "$root" "${url:-http://deb.debian.org/debian}"
    rm -rf "$scripts"
fi

rm -rf "$root/suite"
mkdir -p "$root/suite" "$root$(dirname "$bundle")"
cp "$bundle" "$root$bundle"
cp /etc/resolv.conf "$root/etc/resolv.conf"
git ls-files -z --cached --others --exclude-standard | tar --create --null --files-from - | tar --extract --directory "$root/suite"
mount -t proc proc "$root/proc"
mount --bind /dev "$root/dev"

# Without the variable that names a directory of wheels, which is not in the root.
chroot "$root" env -u PIP_FIND_LINKS HOME=/tmp TMPDIR=/tmp PATH=/usr/sbin:/usr/bin:/sbin:/bin sh -euc '
    cd /suite
    python3 -m venv .venv
    .venv/bin/pip install --quiet --editable ".[test]"
    .venv/bin/python --version
    .venv/bin/python -m pytest
' < /dev/null
