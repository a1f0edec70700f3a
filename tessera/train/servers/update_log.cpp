#include "tessera/train/servers/update_log.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "tessera/base/error.hpp"
#include "tessera/base/files/mapped_file.hpp"
#include "tessera/base/json_depth.hpp"

namespace tessera::train {

UpdateLog::UpdateLog(const std::string& folder, std::int64_t workers, std::int64_t kept)
    : lines_(cat(folder, "/", kUpdateLogName), kept) {
  lines_.write(kept, metrics::Record{{"begins_after", kept}, {"workers", workers}});
}

void UpdateLog::add(const Push& push) {
  lines_.write(push.number, metrics::Record{{"step", push.number},
                                            {"worker", std::int64_t{push.of.worker}},
                                            {"worker_step", push.of.step},
                                            {"version", push.version},
                                            {"taken", push.taken},
                                            {"loss", push.loss},
                                            {"gradient_norm", push.gradient_norm},
                                            {"seconds", push.seconds}});
}

void UpdateLog::lose(std::int64_t number, int worker) {
  lines_.write(number, metrics::Record{{"lost_after", number}, {"worker", std::int64_t{worker}}});
}

void UpdateLog::end(std::int64_t number, const std::string& bits) {
  lines_.write(number, metrics::Record{{"ends_after", number}, {"bits", bits}});
  lines_.file().finish();
}

namespace {

using LogJson = nlohmann::json;

constexpr int kMostLogDepth = 4;
constexpr std::int64_t kMostWorkers = 1 << 20;
constexpr std::int64_t kMostPushes = std::int64_t{1} << 40;

class LogReader {
 public:
  explicit LogReader(const std::string& path) : path_(path) {}

  void take(std::string_view text) {
    ++line_;
    if (json_depth(text) > kMostLogDepth) fail("is nested too deeply");
    const LogJson json = LogJson::parse(text, nullptr, false);
    if (!json.is_object()) fail("is no JSON object");
    if (json.contains("begins_after")) {
      begin(whole(json, "workers", 1, kMostWorkers), whole(json, "begins_after", 0));
    } else if (json.contains("ends_after")) {
      const auto bits = json.find("bits");
      if (bits == json.end() || !bits->is_string()) fail("has no \"bits\"");
      out_.bits = bits->get<std::string>();
    } else if (json.contains("lost_after")) {
      lost_[whole(json, "worker", 0)] = whole(json, "lost_after", 0);
    } else {
      add(json);
    }
  }

  UpdateHistory history() {
    if (out_.workers == 0)
      throw UserError(cat(path_, " is no log of updates: no line of it says how many workers"));
    if (most_worker_ >= out_.workers)
      throw UserError(cat(path_, " names worker ", most_worker_, " of ", out_.workers));
    return std::move(out_);
  }

 private:
  [[noreturn]] void fail(const std::string& why) const {
    throw UserError(cat(path_, ", line ", line_, " ", why, "; it should be the updates.jsonl of a run"));
  }

  std::int64_t whole(const LogJson& json, const char* key, std::int64_t least,
                     std::int64_t most = kMostPushes) const {
    const auto found = json.find(key);
    if (found == json.end() || !found->is_number_integer() || found->get<std::int64_t>() < least ||
        found->get<std::int64_t>() > most)
      fail(cat("has no whole number \"", key, "\" from ", least, " to ", most));
    return found->get<std::int64_t>();
  }

  // A run that goes on keeps what it has of earlier pushes, without their first line.
  void begin(std::int64_t workers, std::int64_t behind) {
    out_.workers = workers;
    out_.bits.clear();
    lost_.clear();
    updates_.assign(static_cast<std::size_t>(workers), 0);
    if (out_.pushes.empty()) out_.first = behind + 1;
    if (out_.first + std::ssize(out_.pushes) != behind + 1)
      fail(cat("goes on after update ", behind, ", and ", out_.first + std::ssize(out_.pushes),
               " comes next"));
  }

  // Of what was finite; what was not is null.
  static double number(const LogJson& json, const char* key) {
    const auto found = json.find(key);
    return found != json.end() && found->is_number() ? found->get<double>()
                                                     : std::numeric_limits<double>::quiet_NaN();
  }

  void add(const LogJson& json) {
    if (json.contains("missing_from")) fail("stands for updates that a full disk kept from being written");
    if (out_.pushes.empty() && out_.workers == 0) out_.first = whole(json, "step", 1);
    const auto expected = out_.first + std::ssize(out_.pushes);
    Push push{.number = whole(json, "step", 1),
              .of = {static_cast<int>(whole(json, "worker", 0, kMostWorkers)), whole(json, "worker_step", 1)},
              .version = whole(json, "version", 0),
              .taken = json.value("taken", true),
              .loss = number(json, "loss"),
              .gradient_norm = number(json, "gradient_norm")};
    if (push.number != expected) fail(cat("is push ", push.number, ", and ", expected, " comes next"));
    most_worker_ = std::max(most_worker_, push.of.worker);
    if (push.version >= push.number) fail("was computed with weights of a later version");
    updates_.resize(std::max(updates_.size(), static_cast<std::size_t>(push.of.worker) + 1));
    out_.most_ahead = std::max(out_.most_ahead, ahead(push));
    out_.pushes.push_back(push);
    ++updates_[static_cast<std::size_t>(push.of.worker)];
  }

  // Of the slowest that was there, by the pushes that its weights had seen.
  std::int64_t ahead(const Push& push) const {
    std::vector<std::int64_t> seen = updates_;
    for (auto later = out_.pushes.rbegin(); later != out_.pushes.rend() && later->number > push.version;
         ++later)
      --seen.at(static_cast<std::size_t>(later->of.worker));
    const std::int64_t own = seen.at(static_cast<std::size_t>(push.of.worker));
    std::int64_t slowest = own;
    for (std::size_t worker = 0; worker < seen.size(); ++worker)
      if (const auto lost = lost_.find(static_cast<std::int64_t>(worker));
          lost == lost_.end() || lost->second > push.version)
        slowest = std::min(slowest, seen[worker]);
    return own - slowest;
  }

  std::string path_;
  std::int64_t line_ = 0;
  int most_worker_ = -1;
  std::vector<std::int64_t> updates_;          // by worker, of the run that went on last
  std::map<std::int64_t, std::int64_t> lost_;  // workers: pushes that were behind
  UpdateHistory out_;
};

}  // namespace

UpdateHistory read_update_log(const std::string& path) {
  const MappedFile file(path);
  const std::string_view text = file.text();
  LogReader reader(path);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    if (end > at) reader.take(text.substr(at, end - at));
    at = end + 1;
  }
  return reader.history();
}

}  // namespace tessera::train
