/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes through the model's pipes that do everything (../fuzz.c). */
#include "target.h"

#include "../testbed.h"

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed)
{
    (void)seed;
    return LLVMFuzzerMutate(data, size, room);
}

static struct frame frame;

static void seed_tunnel(seed_user use, bool outer6, bool inner6)
{
    const char *src = outer6 ? "2001:db8::1" : "192.0.2.1", *dst = outer6 ? "2001:db8::2" : "192.0.2.2";

    frame_start(&frame);
    frame_eth(&frame, "02:00:00:00:00:01", "02:00:00:00:00:02", outer6 ? 0x86dd : 0x0800);
    frame_ip(&frame, (struct ip){.src = src, .dst = dst, .proto = inner6 ? 41 : 4});
    frame_ip(&frame, (struct ip){.src = inner6 ? "::1" : "127.0.0.1", .dst = inner6 ? "::2" : "127.0.0.2",
                                 .proto = 17});
    frame_udp(&frame, 1, 2);
    frame_finish(&frame);
    use(outer6 ? inner6 ? "6in6" : "4in6" : inner6 ? "6in4" : "4in4", frame.bytes, frame.length);
}

void each_seed(seed_user use)
{
    frame_packet(&frame, "192.0.2.1", "192.0.2.2", 17, 1, 53);
    use("udp4", frame.bytes, frame.length);
    frame_packet(&frame, "192.0.2.1", "192.0.2.2", 6, 1, 53);
    use("tcp4", frame.bytes, frame.length);
    frame_packet(&frame, "2001:db8::1", "2001:db8::2", 17, 1, 53);
    use("udp6", frame.bytes, frame.length);
    for (unsigned i = 0; i < 4; i++)
        seed_tunnel(use, i & 1, i & 2);
    frame_start(&frame);
    frame_eth(&frame, "02:00:00:00:00:01", "02:00:00:00:00:02", 0x8100);
    frame_vlan(&frame, 7, 0x0800);
    frame_ip(&frame, (struct ip){.src = "192.0.2.1", .dst = "192.0.2.2", .proto = 17});
    frame_udp(&frame, 1, 4789);
    frame_vxlan(&frame, 7);
    frame_eth(&frame, "02:00:00:00:00:01", "02:00:00:00:00:02", 0x86dd);
    frame_ip(&frame, (struct ip){.src = "::1", .dst = "::2", .proto = 6});
    frame_tcp(&frame, 1, 2);
    frame_finish(&frame);
    use("vxlan", frame.bytes, frame.length);
}
