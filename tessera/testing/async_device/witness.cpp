#include "tessera/testing/async_device/witness.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>

#include "tessera/base/text.hpp"

namespace tessera::async_device {
namespace {

std::uint64_t next_life() {
  static std::atomic<std::uint64_t> count = 0;
  return ++count;
}

}  // namespace

Witness::Witness(const Pace& pace, std::function<void()> prepare, Omission omission)
    : pace_(pace), prepare_(std::move(prepare)), omission_(std::move(omission)), life_(next_life()) {}

Witness::~Witness() {
  streams_.clear();
  for (const Freed& freed : freed_) std::free(freed.memory);
  for (const auto& [device, list] : held_)
    for (const Freed& freed : list) std::free(freed.memory);
}

Stream& Witness::make(int device, std::int64_t id) {
  clocks_.emplace_back();
  labels_.emplace_back();
  return *streams_.emplace_back(
      std::make_unique<Stream>(streams_.size(), device, id, pace_, failure_, prepare_));
}

Stream& Witness::default_stream(int device) {
  const std::scoped_lock lock(mutex_);
  auto& own = of_device_[device];
  if (own.empty()) own.push_back(&make(device, 0));
  return *own.front();
}

Stream& Witness::new_stream(int device) {
  const std::scoped_lock lock(mutex_);
  default_stream(device);
  auto& own = of_device_[device];
  own.push_back(&make(device, std::ssize(own)));
  return *own.back();
}

Stream& Witness::stream(int device, std::int64_t id) {
  const std::scoped_lock lock(mutex_);
  if (id == 0) return default_stream(device);
  return *of_device_.at(device).at(static_cast<std::size_t>(id));
}

Clock& Witness::host_clock() const {
  thread_local std::pair<std::uint64_t, Clock> own;
  if (own.first != life_) own = {life_, {}};
  return own.second;
}

std::string Witness::doing(const Stream& stream, const std::string& op) const {
  const std::string& label = labels_[stream.number()];
  return label.empty() ? op : cat(op, " of ", label);
}

Point Witness::issue(Stream& stream, const std::string& op, std::span<const Access> touched,
                     std::function<void()> task, const Stream* caller) {
  const std::scoped_lock lock(mutex_);
  ++counts_[stream.device()].launches[op];
  Clock& clock = clocks_[stream.number()];
  join(clock, host_clock());
  const std::uint64_t number = stream.given() + 1;
  const std::string what = doing(caller ? *caller : stream, op);
  for (const Access& access : touched) touch(stream, number, what, access);
  clock.resize(std::max(clock.size(), stream.number() + 1));
  clock[stream.number()] = number;
  stream.give(what, std::move(task));
  return {&stream, number, clock};
}

void Witness::label(Stream& stream, std::string text) {
  const std::scoped_lock lock(mutex_);
  labels_[stream.number()] = std::move(text);
}

Point Witness::now(Stream& stream) {
  const std::scoped_lock lock(mutex_);
  Point out{&stream, stream.given(), clocks_[stream.number()]};
  join(out.clock, host_clock());
  return out;
}

bool Witness::omits(Omission::Kind kind, std::string_view where) {
  if (kind != omission_.kind || where != omission_.where) return false;
  const std::scoped_lock lock(mutex_);
  ++num_omitted_;
  return true;
}

bool Witness::omits(Omission::Kind kind, const Stream& stream) {
  if (kind != omission_.kind) return false;
  const std::scoped_lock lock(mutex_);
  const std::string_view label = labels_[stream.number()];
  const std::size_t letter = label.find_first_not_of("0123456789");
  return letter != std::string_view::npos && omits(kind, label.substr(letter, 1));
}

std::int64_t Witness::num_omitted() const {
  const std::scoped_lock lock(mutex_);
  return num_omitted_;
}

void Witness::order(Stream& later, const Point& point) {
  if (!point.stream || point.stream == &later) return;
  const std::scoped_lock lock(mutex_);
  if (covers(clocks_[later.number()], point.clock)) return;
  join(clocks_[later.number()], point.clock);
  if (point.stream->is_done(point.task)) return;
  issue(later, "wait for an event", {}, [point] { point.stream->wait_for(point.task); });
}

bool Witness::has_passed(const Point& point) {
  if (!point.stream) return true;
  if (!point.stream->is_done(point.task)) return false;
  join(host_clock(), point.clock);
  return true;
}

void Witness::host_wait(const Point& point, const std::string& why) {
  if (!point.stream) return;
  {
    const std::scoped_lock lock(mutex_);
    ++counts_[point.stream->device()].host_waits[why];
  }
  point.stream->wait_for(point.task);
  join(host_clock(), point.clock);
}

void Witness::finish(int device) {
  std::vector<Stream*> own;
  {
    const std::scoped_lock lock(mutex_);
    own = of_device_[device];
  }
  for (const Stream* stream : own) stream->wait_for(stream->given());
}

Counts Witness::counts(int device) const {
  const std::scoped_lock lock(mutex_);
  const auto found = counts_.find(device);
  return found == counts_.end() ? Counts() : found->second;
}

std::map<std::string, std::int64_t> Witness::problems() const {
  const std::scoped_lock lock(mutex_);
  return problems_;
}

std::uint64_t Witness::num_done() const {
  const std::scoped_lock lock(mutex_);
  std::uint64_t sum = 0;
  for (const auto& stream : streams_) sum += stream->done();
  return sum;
}

std::vector<std::string> Witness::busy() const {
  const std::scoped_lock lock(mutex_);
  std::vector<std::string> out;
  for (const auto& stream : streams_)
    if (const auto at = stream->is_at())
      out.push_back(cat("device ", stream->device(), ", ", stream->name(), ": ", *at));
  return out;
}

}  // namespace tessera::async_device
