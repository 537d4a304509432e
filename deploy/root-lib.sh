# Working in a bare Debian root in a folder; sourced. Only root can.

# inside ROOT COMMAND…: runs it there, as root of a machine that knows nothing of this one.
inside() {
  local root=$1
  shift
  unshare --mount --pid --fork bash -c '
    root=$1; shift
    mount --rbind /dev "$root/dev" && mount -t proc proc "$root/proc" && mount -t sysfs sysfs "$root/sys" &&
      exec chroot "$root" /usr/bin/env -i HOME=/root TERM=dumb LANG=C.UTF-8 \
        PATH=/opt/rust/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"' - "$root" "$@"
}

# Only what lets the package clients reach their registries from here: names, and a proxy's certificates.
take_over_network() {
  local root=$1
  cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
  if compgen -G '/usr/local/share/ca-certificates/*.crt' >/dev/null; then
    cp /usr/local/share/ca-certificates/*.crt "$root/usr/local/share/ca-certificates/"
    inside "$root" update-ca-certificates >/dev/null
    # Python's pip carries certificates of its own.
    printf '[global]\ncert = /etc/ssl/certs/ca-certificates.crt\n' >"$root/etc/pip.conf"
  fi
}
