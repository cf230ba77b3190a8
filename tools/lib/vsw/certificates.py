"""Certificates by openssl(1)."""

import subprocess
from pathlib import Path

KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


def _openssl(*words):
    subprocess.run(("openssl", *map(str, words)), check=True, capture_output=True)


class Authority:
    """An authority with its files in a directory."""

    def __init__(self, directory, name="ca"):
        self.directory = Path(directory)
        self.cert, self.key = self.directory / f"{name}.crt", self.directory / f"{name}.key"
        _openssl("req", "-x509", *KEY, "-days", 30, "-keyout", self.key, "-out", self.cert, "-subj", f"/CN={name}")

    def issue(self, name, sans):
        """Files of certificate and key, with subject alternative names as openssl writes them."""
        request, cert, key, extensions = (self.directory / f"{name}.{kind}" for kind in ("csr", "crt", "key", "ext"))
        extensions.write_text(f"subjectAltName = {sans}\n")
        _openssl("req", *KEY, "-keyout", key, "-out", request, "-subj", f"/CN={name}")
        _openssl("x509", "-req", "-in", request, "-CA", self.cert, "-CAkey", self.key, "-CAcreateserial", "-days", 30,
                 "-extfile", extensions, "-out", cert)
        return cert, key
