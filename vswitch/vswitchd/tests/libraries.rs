//! A librte_vhost that is not as the switch knows it: no vhost-user port is opened, and the switch
//! goes on.

use crate::common::{Switch, run};
use std::fs;
use std::path::PathBuf;

const BRIDGE: &str = "[[bridge]]\nname = \"br0\"\n\n";

/// The descriptors of a message are 8 bytes farther behind.
const OTHER_LAYOUT: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>
typedef int (*handler)(int, void *);
struct ops { handler pre, post; };
static handler pre;
static int shifted(int vid, void *context)
{
	char copy[12 + 632 + 8 + 36];
	memset(copy, 0xff, sizeof(copy));
	memcpy(copy, context, 12 + 632);
	memcpy(copy + 12 + 632 + 8, (char *)context + 12 + 632, 36);
	return pre(vid, copy);
}
int rte_vhost_extern_callback_register(int vid, const struct ops *ops, void *context)
{
	static struct ops other = { shifted, 0 };
	int (*next)(int, const struct ops *, void *) = dlsym(RTLD_NEXT, "rte_vhost_extern_callback_register");
	pre = ops->pre;
	return next(vid, &other, context);
}
"#;

/// The thread of messages has another name, so that the switch's recvmsg does not know it.
const OTHER_THREAD: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>
int pthread_setname_np(pthread_t thread, const char *name)
{
	int (*next)(pthread_t, const char *) = dlsym(RTLD_NEXT, "pthread_setname_np");
	return next(thread, strstr(name, "vhost-ev") ? "messages" : name);
}
"#;

/// What a switch answers that is asked for a vhost-user port, behind this library.
fn answer_behind(code: &str) -> String {
    let directory = tempfile::tempdir().expect("a directory");
    let at = |name: &str| -> PathBuf { directory.path().join(name) };
    fs::write(at("library.c"), code).expect("written");
    let [source, library] = ["library.c", "library.so"].map(|name| at(name).display().to_string());
    run(&["cc", "-shared", "-fPIC", "-o", &library, &source]);
    let switch = Switch::start_behind(&at("library.so"), BRIDGE);
    let path = switch.dir().join("guest.sock").display().to_string();
    let mut answers = Vec::new();
    for mode in ["client", "server"] {
        let refused = switch.vsctl(&["add-port", "br0", mode, "--type", "vhost-user", "--path", &path, "--mode", mode]);
        answers.push(String::from_utf8_lossy(&refused.stderr).into_owned());
        assert!(!refused.status.success(), "{mode}: {answers:?}");
    }
    switch.vsctl_ok(&["add-port", "br0", "null", "--type", "dpdk", "--devargs", "net_null0"]);
    assert!(switch.vsctl(&["health"]).status.success());
    answers.join("")
}

#[test]
fn no_guest_is_served_if_messages_have_another_layout() {
    let answer = answer_behind(OTHER_LAYOUT);
    assert_eq!(answer.matches("messages have their descriptors elsewhere").count(), 2, "{answer}");
    assert!(answer.contains("librte_vhost of DPDK 22.11"), "{answer}");
}

#[test]
fn no_guest_is_served_if_the_library_would_leak_descriptors() {
    let answer = answer_behind(OTHER_THREAD);
    assert_eq!(answer.matches("does not call the switch's recvmsg").count(), 2, "{answer}");
}
