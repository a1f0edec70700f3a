#include "tessera/metrics/outputs/event_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>

#include "tessera/base/clock.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/process/host_name.hpp"
#include "tessera/metrics/out_file.hpp"
#include "tessera/metrics/outputs/event.pb.h"

namespace tessera::metrics {

namespace {

constexpr std::array<std::uint32_t, 256> crc_table() {
  constexpr std::uint32_t kCastagnoli = 0x82f63b78;  // reflected
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = crc & 1 ? crc >> 1 ^ kCastagnoli : crc >> 1;
    table[i] = crc;
  }
  return table;
}

// The mask keeps a file that holds its own check sums from looking like a valid one.
std::uint32_t masked_crc(std::string_view bytes) {
  static constexpr auto kTable = crc_table();
  std::uint32_t crc = ~0u;
  for (const char c : bytes) crc = kTable[(crc ^ static_cast<unsigned char>(c)) & 0xff] ^ crc >> 8;
  crc = ~crc;
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

std::string little_endian(std::uint64_t number, int bytes) {
  std::string out;
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(number >> 8 * i & 0xff);
  return out;
}

std::string record_of_event(event_format::Event& event) {
  event.set_wall_time(wall_seconds());
  return framed(event.SerializeAsString());
}

constexpr std::string_view kPrefix = "events.out.tfevents.";

std::string fresh_path(const std::string& folder) {
  const auto second = static_cast<std::int64_t>(wall_seconds());
  return (std::filesystem::path(folder) / cat(kPrefix, second, ".", host_name(), ".", getpid())).string();
}

constexpr char kOption[] = "--out";

// The file with the record that all of them begin with.
int begun(const std::string& path) {
  const auto folder = std::filesystem::path(path).parent_path();
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw WriteError("write to", folder.string(), error.value(), kOption);
  event_format::Event event;
  event.set_file_version("brain.Event:2");
  const std::string record = record_of_event(event);
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0) throw WriteError("open", path, errno, kOption);
  const ssize_t written = ::write(file, record.data(), record.size());
  if (written == std::ssize(record)) return file;
  const int reason = written < 0 ? errno : ENOSPC;
  ::close(file);
  throw WriteError("write to", path, reason, kOption);
}

}  // namespace

std::string framed(const std::string& message) {
  const std::string length = little_endian(message.size(), 8);
  return length + little_endian(masked_crc(length), 4) + message + little_endian(masked_crc(message), 4);
}

EventFile::EventFile(const std::string& folder)
    : path_(fresh_path(folder)),
      file_({.path = path_, .option = kOption, .open = [path = path_] { return begun(path); }}) {}

bool EventFile::has_others() const {
  const std::filesystem::path own(path_);
  std::error_code error;
  for (auto entry = std::filesystem::directory_iterator(own.parent_path(), error);
       !error && entry != std::filesystem::directory_iterator(); entry.increment(error))
    if (entry->path() != own && entry->path().filename().string().starts_with(kPrefix)) return true;
  return false;
}

void EventFile::write_start(std::int64_t step) {
  event_format::Event event;
  event.set_step(step);
  event.mutable_session_log()->set_status(1);
  file_.add(step, record_of_event(event));
}

void EventFile::write(const StepFacts& facts) {
  event_format::Event event;
  event.set_step(facts.step);
  const auto add = [&](const std::string& tag, double number) {
    auto& value = *event.mutable_summary()->add_value();
    value.set_tag(tag);
    value.set_simple_value(static_cast<float>(number));
  };
  for (const Measure& measure : measures())
    if (const auto found = measure.of(facts)) add(cat(measure.group, "/", measure.name), *found);
  for (const MovedAlong& part : facts.moved.along) {
    add(cat("moved/", part.axes, "/", part.kind, "_bytes"), static_cast<double>(part.bytes));
    add(cat("moved/", part.axes, "/", part.kind, "_calls"), static_cast<double>(part.calls));
  }
  file_.add(facts.step, record_of_event(event));
}

}  // namespace tessera::metrics
