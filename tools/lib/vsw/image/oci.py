"""An archive of an image, as the OCI image layout has it. The same files give the same archive: no
time, no owner and no order of the machine is in it.

https://github.com/opencontainers/image-spec, v1.0: image-layout.md, manifest.md, config.md.
"""

import gzip
import hashlib
import io
import json
import tarfile

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"


def tar(entries):
    """A tar archive of entries by path: (bytes, mode), the target of a link, or None for a
    directory."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(entries):
            info, what = tarfile.TarInfo(path), entries[path]
            if what is None:
                info.type, info.mode = tarfile.DIRTYPE, 0o1777 if path == "tmp" else 0o755
                archive.addfile(info)
            elif isinstance(what, str):
                info.type, info.mode, info.linkname = tarfile.SYMTYPE, 0o777, what
                archive.addfile(info)
            else:
                info.size, info.mode = len(what[0]), what[1]
                archive.addfile(info, io.BytesIO(what[0]))
    return out.getvalue()


def digest(data):
    """The name of a blob."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def text(value):
    """JSON, always the same."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def archive(entries, name, config):
    """The archive, and the digest of the image. `config` is what a container has by default."""
    plain = tar(entries)
    packed = gzip.compress(plain, 6, mtime=0)
    about = text({"architecture": "amd64", "os": "linux", "config": config, "rootfs": {"type": "layers", "diff_ids": [digest(plain)]}})
    manifest = text({"schemaVersion": 2, "mediaType": MANIFEST, "config": described(CONFIG, about), "layers": [described(LAYER, packed)]})
    repository, _, tag = name.rpartition(":")
    # Names for tools of the OCI, and for containerd.
    named = {"org.opencontainers.image.ref.name": tag, "io.containerd.image.name": f"{repository}:{tag}"}
    index = {"schemaVersion": 2, "manifests": [{**described(MANIFEST, manifest), "annotations": named}]}
    files = {"oci-layout": text({"imageLayoutVersion": "1.0.0"}), "index.json": text(index)}
    for blob in (packed, about, manifest):
        files[f"blobs/sha256/{digest(blob).removeprefix('sha256:')}"] = blob
    whole = tar({**{path: (data, 0o644) for path, data in files.items()}, "blobs": None, "blobs/sha256": None})
    return whole, digest(manifest)


def described(media_type, data):
    """A descriptor of a blob."""
    return {"mediaType": media_type, "digest": digest(data), "size": len(data)}
