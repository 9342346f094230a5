/* Ports on capture files. */
#include "testbed.h"

#include <unistd.h>

static const char *const in_path = "test_pcap.in", *const out_path = "test_pcap.out";

/* Little-endian, microseconds: the usual kind. */
static void write_capture(const struct frame *frame, unsigned count, size_t cut)
{
    static const uint8_t header[24] = {0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, [16] = 0xff, 0xff, 0, 0, 1};
    FILE *file = fopen(in_path, "wb");

    assert_true(file != NULL);
    assert_int_equal(fwrite(header, 1, sizeof(header), file), sizeof(header));
    for (unsigned i = 0; i < count; i++) {
        uint8_t record[16] = {[8] = (uint8_t)frame->length, [12] = (uint8_t)frame->length};

        assert_int_equal(fwrite(record, 1, sizeof(record), file), sizeof(record));
        assert_int_equal(fwrite(frame->bytes, 1, frame->length - cut, file), frame->length - cut);
    }
    assert_int_equal(fclose(file), 0);
}

static void replays_and_records(void **state)
{
    struct doca_flow_model_port_stats stats;
    struct doca_flow_fwd fwd = to_port(1);
    uint8_t found[256];
    struct frame frame;
    size_t count;
    FILE *file;

    testbed_up("vnf,hws", 2);
    (void)testbed_all(0, &fwd);
    frame_packet(&frame, "192.0.2.1", "192.0.2.2", 17, 1, 2);
    write_capture(&frame, 2, 0);
    assert_doca_ok(doca_flow_model_attach_pcap(0, in_path, NULL));
    assert_doca_ok(doca_flow_model_attach_pcap(1, NULL, out_path));
    assert_doca_refused(doca_flow_model_attach_pcap(1, NULL, out_path), DOCA_ERROR_ALREADY_EXIST, "connected already");
    assert_doca_ok(doca_flow_model_replay(&count));
    assert_int_equal(count, 2);
    assert_doca_ok(doca_flow_model_port_stats(0, &stats));
    assert_int_equal(stats.received, 2);
    assert_doca_ok(doca_flow_model_port_stats(1, &stats));
    assert_int_equal(stats.sent, 2);
    testbed_down();

    file = fopen(out_path, "rb");
    assert_true(file != NULL);
    count = fread(found, 1, sizeof(found), file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(count, 24 + 2 * (16 + frame.length));
    assert_true(memcmp(found + 40, frame.bytes, frame.length) == 0);
    assert_int_equal(unlink(in_path), 0);
    assert_int_equal(unlink(out_path), 0);
}

static void refuses_other_files(void **state)
{
    struct frame frame;
    FILE *file;

    testbed_up("vnf,hws", 2);
    assert_doca_refused(doca_flow_model_attach_pcap(0, "test_pcap.none", NULL), DOCA_ERROR_IO_FAILED, "test_pcap.none");
    assert_doca_refused(doca_flow_model_attach_pcap(7, NULL, NULL), DOCA_ERROR_INVALID_VALUE, "port 7");
    file = fopen(in_path, "wb");
    assert_true(file != NULL);
    assert_true(fputs("no capture, but long enough for a header", file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_doca_refused(doca_flow_model_attach_pcap(0, in_path, NULL), DOCA_ERROR_IO_FAILED, "no pcap file");
    frame_packet(&frame, "192.0.2.1", "192.0.2.2", 17, 1, 2);
    write_capture(&frame, 1, 5);
    assert_doca_ok(doca_flow_model_attach_pcap(0, in_path, NULL));
    assert_doca_refused(doca_flow_model_replay(NULL), DOCA_ERROR_IO_FAILED, "damaged");
    assert_int_equal(unlink(in_path), 0);
    testbed_down();
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(replays_and_records),
        cmocka_unit_test(refuses_other_files),
    };

    return cmocka_run_group_tests_name("pcap", tests, NULL, NULL);
}
