"""Runs in every kernel before a page's first cell, under `run` and `nbval` alike."""


def _prepare():
    import socket
    import warnings

    # Our own warnings are errors; another library's go to stderr, which a page may not have either.
    warnings.filterwarnings("error", module=r"annotated(\.|$)")

    def guarded(connect):
        def refuse_other_hosts(self, address):
            local = self.family not in (socket.AF_INET, socket.AF_INET6)
            if not local and address[0] not in ("127.0.0.1", "::1", "localhost"):
                raise OSError(f"no network while a page runs: asked for {address[0]}")
            return connect(self, address)

        return refuse_other_hosts

    def resolve_local(host, *args, **kwargs):
        if host not in (None, "", "127.0.0.1", "::1", "localhost"):
            raise OSError(f"no network while a page runs: asked for {host}")
        return resolve(host, *args, **kwargs)

    resolve = socket.getaddrinfo
    socket.getaddrinfo = resolve_local
    socket.socket.connect = guarded(socket.socket.connect)
    socket.socket.connect_ex = guarded(socket.socket.connect_ex)


_prepare()
del _prepare
