#include <netdb.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "tessera/base/clock.hpp"
#include "tessera/base/files/file_text.hpp"
#include "tessera/base/text.hpp"
#include "tessera/cli/doctor/doctor.hpp"
#include "tessera/spec/spec.hpp"

namespace tessera::cli {

namespace {

constexpr char kSection[] = "system";

Finding open_files() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const auto text = [](rlim_t n) { return n == RLIM_INFINITY ? std::string("any number") : cat(n); };
  Finding out{kSection, "open files", State::ok,
              cat(text(limit.rlim_cur), " at a time, can be raised to ", text(limit.rlim_max)), ""};
  constexpr rlim_t kForOneRank = 64, kForManyRanks = 1024;
  if (limit.rlim_max < kForManyRanks)
    out.state = limit.rlim_max < kForOneRank ? State::problem : State::note,
    out.advice = "too few for many ranks on this machine: raise the hard limit (ulimit -Hn 4096 as root)";
  return out;
}

// Tries it: permissions, quotas and read-only mounts have many causes.
Finding folder(const char* name, const std::string& path, State if_not, const std::string& advice) {
  const std::string probe = cat(path, "/tessera-doctor-XXXXXX");
  std::string file = probe;
  const int descriptor = mkstemp(file.data());
  if (descriptor < 0)
    return {kSection, name, if_not, cat(path, " can't be written to: ", std::strerror(errno)), advice};
  close(descriptor);
  unlink(file.c_str());
  struct statvfs space {};
  statvfs(path.c_str(), &space);
  const double free_bytes = static_cast<double>(space.f_bavail) * static_cast<double>(space.f_frsize);
  Finding out{kSection, name, State::ok, cat(path, ", ", bytes_text(free_bytes), " free"), ""};
  constexpr double kLittle = 64 << 20;
  if (free_bytes < kLittle) out.state = State::note, out.advice = "nearly full: free some space";
  return out;
}

Finding loopback() {
  const int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* any = reinterpret_cast<sockaddr*>(&address);
  const bool opened = descriptor >= 0 && bind(descriptor, any, size) == 0 && listen(descriptor, 1) == 0 &&
                      getsockname(descriptor, any, &size) == 0;
  const int caller = opened ? socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1;
  const bool reached = caller >= 0 && connect(caller, any, size) == 0;
  const int error = errno;
  for (const int socket : {descriptor, caller})
    if (socket >= 0) close(socket);
  if (reached)
    return {kSection, "loopback", State::ok, cat("127.0.0.1, reached its port ", ntohs(address.sin_port)),
            ""};
  return {
      kSection, "loopback", State::note,
      cat("no port of 127.0.0.1 can be opened and reached: ", std::strerror(error)),
      "ranks of one machine need none; the Prometheus page does: bring the device up (ip link set lo up)"};
}

Finding host_name() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  addrinfo* found = nullptr;
  const int error = getaddrinfo(name, nullptr, nullptr, &found);
  if (error == 0) {
    freeaddrinfo(found);
    return {kSection, "host name", State::ok, cat(name, ", resolves"), ""};
  }
  return {kSection, "host name", State::note, cat(name, " does not resolve: ", gai_strerror(error)),
          "matters only with ranks on several hosts: add it to /etc/hosts or the name server"};
}

Finding clock_source() {
  constexpr int kReadings = 20000;
  const double begin = now_seconds();
  double last = begin;
  bool steady = true;
  for (int i = 0; i < kReadings; ++i) {
    const double now = now_seconds();
    steady = steady && now >= last;
    last = now;
  }
  const std::string source = first_line("/sys/devices/system/clocksource/clocksource0/current_clocksource");
  const double nanoseconds = (last - begin) / kReadings * 1e9;
  Finding out{kSection, "clock", State::ok,
              cat(steady ? "steady" : "goes BACK", ", ", fixed(nanoseconds, 0), " ns a reading",
                  source.empty() ? "" : cat(" (", source, ")")),
              ""};
  constexpr double kSlow = 1000;
  if (!steady || nanoseconds > kSlow)
    out.state = State::note,
    out.advice = "times in traces are not to be trusted: use another clock source of the kernel";
  return out;
}

}  // namespace

void examine_system(Findings& findings) {
  const char* given = std::getenv("TMPDIR");
  const std::string temporary = given && *given ? given : "/tmp";
  findings.push_back(open_files());
  findings.push_back(
      folder("temporary files", temporary, State::note, "set TMPDIR to a folder you may write to"));
  findings.push_back(folder("shared memory", "/dev/shm", State::note,
                            "mount a tmpfs there if other programs need it; Tessera itself doesn't"));
  findings.push_back(folder("this folder", std::filesystem::current_path().string(), State::note,
                            "`tessera train` writes runs/ here: start it elsewhere, or use --out"));
  findings.push_back(loopback());
  findings.push_back(host_name());
  findings.push_back(clock_source());
  findings.push_back({kSection, "time-out", State::ok,
                      cat("a rank waits ", duration_text(spec::Cluster{}.timeout_seconds),
                          " for another unless the run file says cluster.timeout_seconds"),
                      ""});
}

}  // namespace tessera::cli
