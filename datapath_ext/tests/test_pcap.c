/* Ports on capture files. */
#include "bench.h"

#include <unistd.h>

static const char *const in_path = "test_pcap.in", *const out_path = "test_pcap.out";

/* Little-endian, microseconds: the usual kind. */
static void write_capture(const struct frame *frame, unsigned count, size_t cut)
{
    static const uint8_t header[24] = {0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, [16] = 0xff, 0xff, 0, 0, 1};
    FILE *file = fopen(in_path, "wb");

    CHECK(file != NULL);
    CHECK_EQ(fwrite(header, 1, sizeof(header), file), sizeof(header));
    for (unsigned i = 0; i < count; i++) {
        uint8_t record[16] = {[8] = (uint8_t)frame->length, [12] = (uint8_t)frame->length};

        CHECK_EQ(fwrite(record, 1, sizeof(record), file), sizeof(record));
        CHECK_EQ(fwrite(frame->bytes, 1, frame->length - cut, file), frame->length - cut);
    }
    CHECK_EQ(fclose(file), 0);
}

static void replays_and_records(void)
{
    struct doca_flow_model_port_stats stats;
    struct doca_flow_fwd fwd = to_port(1);
    uint8_t found[256];
    struct frame frame;
    size_t count;
    FILE *file;

    bench_up("vnf,hws", 2);
    (void)bench_all(0, &fwd);
    frame_packet(&frame, "192.0.2.1", "192.0.2.2", 17, 1, 2);
    write_capture(&frame, 2, 0);
    CHECK_OK(doca_flow_model_attach_pcap(0, in_path, NULL));
    CHECK_OK(doca_flow_model_attach_pcap(1, NULL, out_path));
    CHECK_REFUSED(doca_flow_model_attach_pcap(1, NULL, out_path), DOCA_ERROR_ALREADY_EXIST, "connected already");
    CHECK_OK(doca_flow_model_replay(&count));
    CHECK_EQ(count, 2);
    CHECK_OK(doca_flow_model_port_stats(0, &stats));
    CHECK_EQ(stats.received, 2);
    CHECK_OK(doca_flow_model_port_stats(1, &stats));
    CHECK_EQ(stats.sent, 2);
    bench_down();

    file = fopen(out_path, "rb");
    CHECK(file != NULL);
    count = fread(found, 1, sizeof(found), file);
    CHECK_EQ(fclose(file), 0);
    CHECK_EQ(count, 24 + 2 * (16 + frame.length));
    CHECK(memcmp(found + 40, frame.bytes, frame.length) == 0);
    CHECK_EQ(unlink(in_path), 0);
    CHECK_EQ(unlink(out_path), 0);
}

static void refuses_other_files(void)
{
    struct frame frame;
    FILE *file;

    bench_up("vnf,hws", 2);
    CHECK_REFUSED(doca_flow_model_attach_pcap(0, "test_pcap.none", NULL), DOCA_ERROR_IO_FAILED, "test_pcap.none");
    CHECK_REFUSED(doca_flow_model_attach_pcap(7, NULL, NULL), DOCA_ERROR_INVALID_VALUE, "port 7");
    file = fopen(in_path, "wb");
    CHECK(file != NULL);
    CHECK(fputs("no capture, but long enough for a header", file) >= 0);
    CHECK_EQ(fclose(file), 0);
    CHECK_REFUSED(doca_flow_model_attach_pcap(0, in_path, NULL), DOCA_ERROR_IO_FAILED, "no pcap file");
    frame_packet(&frame, "192.0.2.1", "192.0.2.2", 17, 1, 2);
    write_capture(&frame, 1, 5);
    CHECK_OK(doca_flow_model_attach_pcap(0, in_path, NULL));
    CHECK_REFUSED(doca_flow_model_replay(NULL), DOCA_ERROR_IO_FAILED, "damaged");
    CHECK_EQ(unlink(in_path), 0);
    bench_down();
}

RUN_TESTS(TEST(replays_and_records), TEST(refuses_other_files))
