//! Which virtio and vhost-user features are offered, and what a negotiated set means (virtio 1.1,
//! 5.1.3 and 6).

use super::{Negotiated, Offer};
use dpdk_sys as sys;
use std::ffi::c_int;

/// What a device negotiated.
pub(super) fn negotiated_features(vid: c_int) -> u64 {
    let mut features = 0;
    // SAFETY: the device exists (called from callbacks about it); one u64 is written.
    unsafe { sys::rte_vhost_get_negotiated_features(vid, &raw mut features) };
    features
}

const fn bit(number: u32) -> u64 {
    1 << number
}

/// Ways of speaking that change nothing for packets. Control queue commands end in QEMU or
/// virtio-user, never here. The MTU is a number that the front end is told by whoever runs it
/// (QEMU: `host_mtu`) and tells its guest, if we offer that: it is for the operator to give the
/// port the same (`VHOST_USER_NET_SET_MTU` brings it here, where the library only checks that it is
/// between 68 and 65,535).
const ALWAYS: u64 = bit(sys::VIRTIO_F_VERSION_1)
    | bit(sys::VIRTIO_F_ANY_LAYOUT)
    | bit(sys::VIRTIO_F_IN_ORDER)
    | bit(sys::VIRTIO_RING_F_EVENT_IDX)
    | bit(sys::VIRTIO_NET_F_CTRL_VQ)
    | bit(sys::VIRTIO_NET_F_CTRL_RX)
    | bit(sys::VIRTIO_NET_F_GUEST_ANNOUNCE)
    | bit(sys::VIRTIO_NET_F_MTU)
    | bit(sys::VHOST_USER_F_PROTOCOL_FEATURES);

const CSUM: u64 = bit(sys::VIRTIO_NET_F_CSUM) | bit(sys::VIRTIO_NET_F_GUEST_CSUM);

/// Without the legacy `VIRTIO_NET_F_GSO`, which old drivers take for leave to send UFO.
const TSO: u64 = bit(sys::VIRTIO_NET_F_HOST_TSO4)
    | bit(sys::VIRTIO_NET_F_HOST_TSO6)
    | bit(sys::VIRTIO_NET_F_HOST_ECN)
    | bit(sys::VIRTIO_NET_F_GUEST_TSO4)
    | bit(sys::VIRTIO_NET_F_GUEST_TSO6)
    | bit(sys::VIRTIO_NET_F_GUEST_ECN);

/// The features that may be offered. Everything else is taken away from what the library supports:
/// UFO (fragments IP behind our back), IOMMU (a miss would block a worker on the socket), the dirty
/// log
/// (no live migration).
pub(super) const fn allowed(offer: Offer) -> u64 {
    let mut features = ALWAYS;
    if offer.csum {
        features |= CSUM;
    }
    if offer.csum && offer.tso {
        features |= TSO;
    }
    if offer.mergeable {
        features |= bit(sys::VIRTIO_NET_F_MRG_RXBUF);
    }
    if offer.indirect {
        features |= bit(sys::VIRTIO_RING_F_INDIRECT_DESC);
    }
    if offer.packed {
        features |= bit(sys::VIRTIO_F_RING_PACKED);
    }
    if offer.multiqueue {
        features |= bit(sys::VIRTIO_NET_F_MQ);
    }
    features
}

/// The vhost-user protocol features offered: nothing with which the back end talks to the front end
/// by itself.
pub(super) const fn protocol(offer: Offer) -> u64 {
    let features = bit(sys::VHOST_USER_PROTOCOL_F_REPLY_ACK)
        | bit(sys::VHOST_USER_PROTOCOL_F_STATUS)
        | bit(sys::VHOST_USER_PROTOCOL_F_NET_MTU);
    if offer.multiqueue { features | bit(sys::VHOST_USER_PROTOCOL_F_MQ) } else { features }
}

/// Whether there may be more than one queue pair.
pub(super) const fn has_multiqueue(features: u64) -> bool {
    features & bit(sys::VIRTIO_NET_F_MQ) != 0
}

/// Whether a packet may fill several of the guest's buffers.
pub(super) const fn is_mergeable(features: u64) -> bool {
    features & bit(sys::VIRTIO_NET_F_MRG_RXBUF) != 0
}

/// Bytes of the virtio-net header in front of each packet (virtio 1.1, 5.1.6): legacy devices
/// without mergeable buffers do without the number of buffers.
pub(super) const fn header_len(features: u64) -> usize {
    if is_mergeable(features) || features & bit(sys::VIRTIO_F_VERSION_1) != 0 { 12 } else { 10 }
}

/// Whether rings are packed.
pub(super) const fn is_packed(features: u64) -> bool {
    features & bit(sys::VIRTIO_F_RING_PACKED) != 0
}

/// What negotiated features mean for packets. TSO without checksum offload is no TSO (virtio 1.1,
/// 5.1.3.1); the library does not check that.
pub(super) const fn meaning(features: u64) -> Negotiated {
    let rx_csum = features & bit(sys::VIRTIO_NET_F_CSUM) != 0;
    let tx_csum = features & bit(sys::VIRTIO_NET_F_GUEST_CSUM) != 0;
    Negotiated {
        rx_csum,
        rx_tso4: rx_csum && features & bit(sys::VIRTIO_NET_F_HOST_TSO4) != 0,
        rx_tso6: rx_csum && features & bit(sys::VIRTIO_NET_F_HOST_TSO6) != 0,
        tx_csum,
        tx_tso4: tx_csum && features & bit(sys::VIRTIO_NET_F_GUEST_TSO4) != 0,
        tx_tso6: tx_csum && features & bit(sys::VIRTIO_NET_F_GUEST_TSO6) != 0,
    }
}

/// Whether packets are borrowed: out of split rings, where some might be to be segmented, and where
/// the guest takes what it sends (else what it sends to itself would have to be cut while its rings
/// may not be waited for).
pub(super) const fn allows_borrowing(features: u64) -> bool {
    let Negotiated { rx_tso4, rx_tso6, tx_tso4, tx_tso6, .. } = meaning(features);
    !is_packed(features) && (rx_tso4 || rx_tso6) && (tx_tso4 || !rx_tso4) && (tx_tso6 || !rx_tso6)
}

/// Names of the negotiated features that an operator asks for, in the spelling of the virtio
/// specification.
pub(super) fn names(features: u64) -> Vec<&'static str> {
    const NAMES: [(u32, &str); 15] = [
        (sys::VIRTIO_NET_F_CSUM, "csum"),
        (sys::VIRTIO_NET_F_GUEST_CSUM, "guest_csum"),
        (sys::VIRTIO_NET_F_HOST_TSO4, "host_tso4"),
        (sys::VIRTIO_NET_F_HOST_TSO6, "host_tso6"),
        (sys::VIRTIO_NET_F_HOST_ECN, "host_ecn"),
        (sys::VIRTIO_NET_F_GUEST_TSO4, "guest_tso4"),
        (sys::VIRTIO_NET_F_GUEST_TSO6, "guest_tso6"),
        (sys::VIRTIO_NET_F_GUEST_ECN, "guest_ecn"),
        (sys::VIRTIO_NET_F_MRG_RXBUF, "mrg_rxbuf"),
        (sys::VIRTIO_NET_F_MQ, "mq"),
        (sys::VIRTIO_NET_F_MTU, "mtu"),
        (sys::VIRTIO_RING_F_INDIRECT_DESC, "indirect_desc"),
        (sys::VIRTIO_RING_F_EVENT_IDX, "event_idx"),
        (sys::VIRTIO_F_RING_PACKED, "ring_packed"),
        (sys::VIRTIO_F_IN_ORDER, "in_order"),
    ];
    NAMES.iter().filter(|(number, _)| features & bit(*number) != 0).map(|(_, name)| *name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Offer =
        Offer { client: false, multiqueue: true, csum: true, tso: true, mergeable: true, indirect: true, packed: true };

    #[test]
    fn what_would_do_harm_is_never_offered() {
        for number in [
            sys::VIRTIO_NET_F_GUEST_UFO,
            sys::VIRTIO_NET_F_HOST_UFO,
            sys::VIRTIO_NET_F_GSO,
            sys::VIRTIO_F_IOMMU_PLATFORM,
            sys::VIRTIO_NET_F_RSS,
            sys::VHOST_F_LOG_ALL,
        ] {
            assert_eq!(allowed(ALL) & bit(number), 0, "feature {number}");
        }
        for number in [
            sys::VHOST_USER_PROTOCOL_F_SLAVE_REQ,
            sys::VHOST_USER_PROTOCOL_F_LOG_SHMFD,
            sys::VHOST_USER_PROTOCOL_F_RARP,
            sys::VHOST_USER_PROTOCOL_F_INFLIGHT_SHMFD,
        ] {
            assert_eq!(protocol(ALL) & bit(number), 0, "protocol feature {number}");
        }
    }

    #[test]
    fn every_switch_takes_its_own_bits_away() {
        let without = |change: fn(&mut Offer)| {
            let mut offer = ALL;
            change(&mut offer);
            allowed(ALL) & !allowed(offer)
        };
        assert_eq!(without(|offer| offer.csum = false), CSUM | TSO, "TSO needs checksum offload");
        assert_eq!(without(|offer| offer.tso = false), TSO);
        assert_eq!(without(|offer| offer.mergeable = false), bit(sys::VIRTIO_NET_F_MRG_RXBUF));
        assert_eq!(without(|offer| offer.indirect = false), bit(sys::VIRTIO_RING_F_INDIRECT_DESC));
        assert_eq!(without(|offer| offer.packed = false), bit(sys::VIRTIO_F_RING_PACKED));
        assert_eq!(without(|offer| offer.multiqueue = false), bit(sys::VIRTIO_NET_F_MQ));
    }

    #[test]
    fn tso_without_csum_is_no_tso() {
        let lie = bit(sys::VIRTIO_NET_F_HOST_TSO4) | bit(sys::VIRTIO_NET_F_GUEST_TSO6);
        assert_eq!(meaning(lie), Negotiated::default());
        let all = meaning(allowed(ALL));
        assert!(all.rx_csum && all.rx_tso4 && all.rx_tso6 && all.tx_csum && all.tx_tso4 && all.tx_tso6, "{all:?}");
    }
}
