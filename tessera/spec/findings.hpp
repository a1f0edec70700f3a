// What is wrong with a run, as it is found.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"
#include "tessera/spec/problems.hpp"
#include "tessera/spec/schema.hpp"

namespace tessera::spec {

class Findings {
 public:
  explicit Findings(const Run& run) : run_(run) {}

  // "key = value <why>", unless the condition holds.
  void need(bool condition, const std::string& key, const std::string& why) {
    if (!condition) found_.push_back({key, cat(key, " = ", value_of(key), " ", why)});
  }
  std::vector<Problem> take() { return std::move(found_); }

 private:
  std::string value_of(const std::string& full) const {
    const Key* key = find_key(full);
    TESSERA_CHECK(key, "no key ", full);
    const Value value = key->get(run_);
    return key->kind == Kind::word ? std::get<std::string>(value) : value_text(value);
  }

  const Run& run_;
  std::vector<Problem> found_;
};

// Servers and workers, replicas that make local steps, traffic in fewer bytes.
void check_across_steps(const Run& run, Findings& findings);

}  // namespace tessera::spec
