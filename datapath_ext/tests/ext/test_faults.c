/* Hardware that refuses: each call of a load fails once, and then, from each call on, all do. The linker puts the
 * functions here in place of the shim's and of pipe_create. */
#include "report.h"
#include "rig.h"
#include "pipe.h"
#include "shim.h"

static unsigned countdown; /* calls until one fails; 0: none does */
static bool lasting;       /* all after it fail too */
static bool failed;

static bool fails(void)
{
    if (failed && lasting)
        return true;
    if (countdown == 0 || --countdown > 0)
        return false;
    failed = true;
    return true;
}

bool __real_pipe_create(struct flow_port *port, const struct pipe_spec *spec, struct doca_flow_pipe **pipe,
                        struct fault *fault);
bool __wrap_pipe_create(struct flow_port *port, const struct pipe_spec *spec, struct doca_flow_pipe **pipe,
                        struct fault *fault);
doca_error_t __real_shim_basic_add(struct doca_flow_pipe *pipe, const struct doca_flow_match *match, uint8_t template,
                                   const struct doca_flow_actions *actions, void *context,
                                   struct doca_flow_pipe_entry **entry);
doca_error_t __wrap_shim_basic_add(struct doca_flow_pipe *pipe, const struct doca_flow_match *match, uint8_t template,
                                   const struct doca_flow_actions *actions, void *context,
                                   struct doca_flow_pipe_entry **entry);
doca_error_t __real_shim_basic_update(struct doca_flow_pipe *pipe, uint8_t template,
                                      const struct doca_flow_actions *actions, struct doca_flow_pipe_entry *entry);
doca_error_t __wrap_shim_basic_update(struct doca_flow_pipe *pipe, uint8_t template,
                                      const struct doca_flow_actions *actions, struct doca_flow_pipe_entry *entry);
doca_error_t __real_shim_control_add(struct doca_flow_pipe *pipe, const struct doca_flow_match *match,
                                     const struct doca_flow_match *mask, const struct doca_flow_actions *actions,
                                     const struct doca_flow_actions *actions_mask,
                                     const struct doca_flow_monitor *monitor, uint32_t priority,
                                     const struct doca_flow_fwd *fwd, void *context, struct doca_flow_pipe_entry **entry);
doca_error_t __wrap_shim_control_add(struct doca_flow_pipe *pipe, const struct doca_flow_match *match,
                                     const struct doca_flow_match *mask, const struct doca_flow_actions *actions,
                                     const struct doca_flow_actions *actions_mask,
                                     const struct doca_flow_monitor *monitor, uint32_t priority,
                                     const struct doca_flow_fwd *fwd, void *context, struct doca_flow_pipe_entry **entry);
doca_error_t __real_shim_hash_add(struct doca_flow_pipe *pipe, uint32_t index, const struct doca_flow_actions *actions,
                                  void *context, struct doca_flow_pipe_entry **entry);
doca_error_t __wrap_shim_hash_add(struct doca_flow_pipe *pipe, uint32_t index, const struct doca_flow_actions *actions,
                                  void *context, struct doca_flow_pipe_entry **entry);
doca_error_t __real_shim_remove(struct doca_flow_pipe_entry *entry);
doca_error_t __wrap_shim_remove(struct doca_flow_pipe_entry *entry);

bool __real_flow_wait(struct flow_port *port, struct fault *fault);
bool __wrap_flow_wait(struct flow_port *port, struct fault *fault);

/* An operation that was accepted and turns out badly when it completes. */
bool __wrap_flow_wait(struct flow_port *port, struct fault *fault)
{
    bool done = __real_flow_wait(port, fault);

    return fails() ? fault_set(fault, "hardware refused an operation of port %s", port->name) : done;
}

bool __wrap_pipe_create(struct flow_port *port, const struct pipe_spec *spec, struct doca_flow_pipe **pipe,
                        struct fault *fault)
{
    return fails() ? fault_set(fault, "creating pipe %s: refused by the test", spec->name)
                   : __real_pipe_create(port, spec, pipe, fault);
}

doca_error_t __wrap_shim_basic_add(struct doca_flow_pipe *pipe, const struct doca_flow_match *match, uint8_t template,
                                   const struct doca_flow_actions *actions, void *context,
                                   struct doca_flow_pipe_entry **entry)
{
    return fails() ? DOCA_ERROR_DRIVER : __real_shim_basic_add(pipe, match, template, actions, context, entry);
}

doca_error_t __wrap_shim_basic_update(struct doca_flow_pipe *pipe, uint8_t template,
                                      const struct doca_flow_actions *actions, struct doca_flow_pipe_entry *entry)
{
    return fails() ? DOCA_ERROR_AGAIN : __real_shim_basic_update(pipe, template, actions, entry);
}

doca_error_t __wrap_shim_control_add(struct doca_flow_pipe *pipe, const struct doca_flow_match *match,
                                     const struct doca_flow_match *mask, const struct doca_flow_actions *actions,
                                     const struct doca_flow_actions *actions_mask,
                                     const struct doca_flow_monitor *monitor, uint32_t priority,
                                     const struct doca_flow_fwd *fwd, void *context, struct doca_flow_pipe_entry **entry)
{
    return fails() ? DOCA_ERROR_DRIVER
                   : __real_shim_control_add(pipe, match, mask, actions, actions_mask, monitor, priority, fwd, context,
                                             entry);
}

doca_error_t __wrap_shim_hash_add(struct doca_flow_pipe *pipe, uint32_t index, const struct doca_flow_actions *actions,
                                  void *context, struct doca_flow_pipe_entry **entry)
{
    return fails() ? DOCA_ERROR_DRIVER : __real_shim_hash_add(pipe, index, actions, context, entry);
}

doca_error_t __wrap_shim_remove(struct doca_flow_pipe_entry *entry)
{
    return fails() ? DOCA_ERROR_DRIVER : __real_shim_remove(entry);
}

/* Two VIPs that stay, and of the rest a bit of everything. */
static json_t *before(void)
{
    json_t *json = rig_json("siit");

    rig_put(json, "tunnel", json_pack("{s:s,s:s}", "mac", "02:00:00:00:00:01", "ipv6", "2001:db8::1"));
    rig_put(json, "vips/1/forward", json_string("l2"));
    rig_put(json, "vips/2", json_pack("{s:s,s:s,s:s,s:s,s:i,s:s,s:[ssss],s:s}", "name", "gone", "family", "ipv6",
                                      "address", "2001:db8:1::1", "protocol", "udp", "port", 53, "select", "spray",
                                      "slots", "b1", "b2", "b1", "b2", "forward", "l2"));
    return json;
}

/* Slots and addresses changed in place, a VIP swapped, one removed, one added that needs tunnels. */
static json_t *after(void)
{
    json_t *json = before();

    rig_put(json, "backends/0/mac", json_string("02:00:00:00:00:22"));
    rig_put(json, "vips/0/slots/1", json_string("b1"));
    rig_put(json, "vips/1/select", json_string("client"));
    rig_put(json, "vips/1/hash_fields", json_pack("[s]", "src_ip"));
    rig_put(json, "vips/2/name", json_string("new"));
    rig_put(json, "vips/2/port", json_integer(54));
    rig_put(json, "vips/2/forward", json_string("ipip"));
    return json;
}

static unsigned backend(const char *dst, uint8_t protocol, uint16_t src_port)
{
    return rig_backend((struct rig_packet){.src = strchr(dst, ':') ? "2001:db8::9" : "192.0.2.9", .dst = dst,
                                           .protocol = protocol, .src_port = src_port});
}

static void check_before(void)
{
    struct frame frame;

    CHECK_EQ(backend("198.51.100.1", 17, 0), 0x11);
    CHECK_EQ(backend("198.51.100.1", 17, 2), 0x12);
    CHECK_EQ(backend("198.51.100.1", 6, 0), 0x11);
    CHECK_EQ(backend("198.51.100.1", 6, 2), 0x12);
    (void)backend("2001:db8:1::1", 17, 1);
    rig_frame(&frame, (struct rig_packet){.src = "2001:db8::9", .dst = "2001:db8:1::1", .dst_port = 54});
    rig_expect(PORT_IN, &frame, DOCA_FLOW_MODEL_DROPPED);
    rig_frame(&frame, (struct rig_packet){.src = "2001:db8::11", .dst = "64:ff9b::1", .src_port = 53, .dst_port = 9});
    rig_expect(PORT_OUT, &frame, DOCA_FLOW_MODEL_SENT);
    CHECK_EQ(rig_missed(), 0);
}

static void check_after(void)
{
    struct frame frame;

    CHECK_EQ(backend("198.51.100.1", 17, 0), 0x22);
    CHECK_EQ(backend("198.51.100.1", 17, 2), 0x22);
    CHECK_EQ(backend("198.51.100.1", 6, 0), backend("198.51.100.1", 6, 2));
    rig_frame(&frame, (struct rig_packet){.src = "2001:db8::9", .dst = "2001:db8:1::1"});
    rig_expect(PORT_IN, &frame, DOCA_FLOW_MODEL_DROPPED);
    rig_frame(&frame, (struct rig_packet){.src = "2001:db8::9", .dst = "2001:db8:1::1", .dst_port = 54});
    rig_expect(PORT_IN, &frame, DOCA_FLOW_MODEL_SENT);
    CHECK_EQ(rig_missed(), 0);
}

static bool load(json_t *json)
{
    struct fault fault = {0};
    struct program *program = program_read(json, &fault);
    bool done;

    CHECK(program != NULL);
    json_decref(json);
    done = engine_load(&rig, program, &fault);
    CHECK(done == (fault.text[0] == '\0'));
    return done;
}

static void each_refusal_is_undone(void)
{
    bool done = false;

    for (unsigned i = 1; !done; i++) {
        rig_up_json(before());
        check_before();
        countdown = i;
        lasting = failed = false;
        done = load(after());
        countdown = 0;
        if (done && failed) /* an update that was worth a second try */
            done = false;
        else if (!done) {
            CHECK(failed && rig.consistent);
            check_before();
            CHECK(load(after()));
        }
        check_after();
        CHECK(load(before()));
        check_before();
        rig_down();
        if (done)
            (void)fprintf(stderr, "%u calls\n", i - 1);
    }
}

/* If undoing fails too, the engine says so, no crash, and a load that succeeds puts everything right. */
static void a_lasting_refusal_is_told(void)
{
    bool done = false;
    unsigned inconsistent = 0;

    for (unsigned i = 1; !done; i++) {
        rig_up_json(before());
        countdown = i;
        lasting = true;
        failed = false;
        done = load(after());
        inconsistent += !rig.consistent;
        countdown = 0;
        failed = false;
        if (!done) {
            json_decref(report_status(&rig));
            CHECK(load(after()));
        }
        CHECK(rig.consistent);
        check_after();
        CHECK(load(before()));
        check_before();
        rig_down();
    }
    CHECK(inconsistent > 0);
}

static void a_refusal_at_the_start_leaves_nothing_open(void)
{
    struct fault fault = {0};
    bool done = false;

    for (unsigned i = 1; !done; i++) {
        json_t *json = before();
        struct program *program = program_read(json, &fault);

        json_decref(json);
        countdown = i;
        lasting = i % 2 == 0;
        failed = false;
        done = engine_open(&rig, program, &fault);
        CHECK(done || fault.text[0] != '\0');
        fault.text[0] = '\0';
    }
    countdown = 0;
    check_before();
    rig_down();
}

RUN_TESTS(TEST(each_refusal_is_undone), TEST(a_lasting_refusal_is_told), TEST(a_refusal_at_the_start_leaves_nothing_open))
