#include "tessera/metrics/outputs/endpoint.hpp"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <string_view>
#include <thread>
#include <vector>

#include "tessera/base/clock.hpp"
#include "tessera/base/text.hpp"

namespace tessera::metrics {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

const StepFacts kOneStep{.step = 1, .steps = 1000, .loss = 2, .tokens = 100, .step_seconds = 0.1};

int connected(int port) {
  const int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{.sin_family = AF_INET, .sin_port = htons(static_cast<std::uint16_t>(port))};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(client, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  return client;
}

// What the server sends until it closes the connection, which it may do before it has read all.
std::string answer_to(int port, std::string_view request) {
  const int client = connected(port);
  while (!request.empty()) {
    const ssize_t sent = send(client, request.data(), request.size(), MSG_NOSIGNAL);
    if (sent <= 0) break;
    request.remove_prefix(static_cast<std::size_t>(sent));
  }
  std::string page;
  char buffer[4096];
  for (ssize_t count; (count = read(client, buffer, sizeof buffer)) > 0;)
    page.append(buffer, static_cast<std::size_t>(count));
  close(client);
  return page;
}

std::string page_at(int port) {
  return answer_to(port, "GET /metrics HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n");
}

TEST(Endpoint, GaugesAppearWithTheFirstStep) {
  Endpoint endpoint({});
  const std::string before = page_at(endpoint.port());
  EXPECT_THAT(before, HasSubstr("\ntessera_steps_total 0\n"));
  EXPECT_THAT(before, Not(HasSubstr("tessera_loss")));
  EXPECT_THAT(before, Not(HasSubstr("NaN")));
  endpoint.update(kOneStep);
  EXPECT_THAT(page_at(endpoint.port()), HasSubstr("\n# TYPE tessera_loss gauge\ntessera_loss 2\n"));
}

TEST(Endpoint, RequestsOfAnyLengthAreAnsweredOrRefused) {
  Endpoint endpoint({});
  const auto status_of = [&](const std::string& request) {
    return answer_to(endpoint.port(), request + "\r\nConnection: close\r\n\r\n").substr(0, 13);
  };
  for (const std::size_t slashes : {2, 1000, 5000, 14000})
    EXPECT_EQ(status_of(cat("GET ", std::string(slashes, '/'), "metrics HTTP/1.1\r\nHost: here")),
              "HTTP/1.1 404 ")
        << slashes;
  for (const char* path : {"/", "/metrics/", "/%6detrics", "/metrics%00", "/../metrics", "*"})
    EXPECT_EQ(status_of(cat("GET ", path, " HTTP/1.1\r\nHost: here")), "HTTP/1.1 404 ") << path;
  for (const char* method : {"POST", "PUT", "HEAD", "TRACE", "CONNECT", "X"})
    EXPECT_EQ(status_of(cat(method, " /metrics HTTP/1.1\r\nHost: here")), "HTTP/1.1 405 ") << method;
  // The server answers and closes while the rest still comes, so the answer may be lost on its way.
  const auto is_refused = AnyOf(IsEmpty(), StartsWith("HTTP/1.1 4"));
  for (const std::size_t bytes : {20'000, 1'000'000}) {
    const std::string many(bytes, '/');
    EXPECT_THAT(status_of(cat("GET ", many, " HTTP/1.1\r\nHost: here")), is_refused);
    EXPECT_THAT(status_of(cat("GET /metrics HTTP/1.1\r\nHost: here\r\nX: ", many)), is_refused);
  }
  EXPECT_THAT(page_at(endpoint.port()), HasSubstr("tessera_steps_total 0"));
}

TEST(Endpoint, ShowsAllNumbersOfOneStep) {
  Endpoint endpoint({});
  std::atomic<bool> over = false;
  std::thread training([&] {
    while (!over) endpoint.update(kOneStep);
  });
  for (int i = 0; i < 100; ++i) {
    const std::string page = page_at(endpoint.port());
    const auto number = [&](const std::string& name) {
      const auto at = page.find(cat("\ntessera_", name, " "));
      return at == page.npos ? -1 : std::stod(page.substr(at + name.size() + 10));
    };
    EXPECT_GE(number("steps_total"), 0) << page;
    EXPECT_EQ(number("tokens_total"), kOneStep.tokens * number("steps_total"));
  }
  over = true;
  training.join();
}

// A connection that says nothing, or half a request, holds up nobody; without time-outs and threads it takes
// 30 s each.
TEST(Endpoint, SilentConnectionsDelayNobody) {
  Endpoint endpoint({});
  endpoint.update(kOneStep);
  std::vector<int> silent = {connected(endpoint.port()), connected(endpoint.port())};
  EXPECT_EQ(write(silent.back(), "GET /met", 8), 8);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // until they are served
  double begun = now_seconds();
  EXPECT_THAT(page_at(endpoint.port()), HasSubstr("tessera_steps_total 1"));
  EXPECT_LT(now_seconds() - begun, 5) << "at once when nothing else runs";
  while (silent.size() < 10) silent.push_back(connected(endpoint.port()));
  begun = now_seconds();
  EXPECT_THAT(page_at(endpoint.port()), HasSubstr("tessera_steps_total 1"));
  EXPECT_LT(now_seconds() - begun, 20)
      << "about three seconds when nothing else runs, and 10 x 30 without time-outs";
  for (const int client : silent) close(client);
}

}  // namespace
}  // namespace tessera::metrics
