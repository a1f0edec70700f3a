#include <cstdio>

#include "tessera/base/clock.hpp"
#include "tessera/base/error.hpp"
#include "tessera/cli/commands/commands.hpp"
#include "tessera/cli/doctor/doctor.hpp"
#include "tessera/metrics/field.hpp"
#include "tessera/tensor/tensor.hpp"

namespace tessera::cli {

namespace {

const char* word(State state) {
  switch (state) {
    case State::ok:
      return "ok";
    case State::note:
      return "note";
    case State::problem:
      return "problem";
  }
  throw Bug("a state outside its enumeration");
}

std::vector<std::string> texts(const Findings& findings, State state) {
  std::vector<std::string> out;
  for (const auto& finding : findings)
    if (finding.state == state) out.push_back(cat(finding.name, ": ", finding.value, ". ", finding.advice));
  return out;
}

void print_json(const Findings& findings, const std::vector<std::string>& usable, double seconds) {
  std::vector<metrics::Record> all;
  for (const auto& finding : findings)
    all.push_back({{"section", finding.section},
                   {"name", finding.name},
                   {"state", std::string(word(finding.state))},
                   {"value", finding.value},
                   {"advice", finding.advice}});
  const metrics::Record record = {{"torch", tensor::engine_version()},
                                  {"backends", usable},
                                  {"problems", texts(findings, State::problem)},
                                  {"notes", texts(findings, State::note)},
                                  {"findings", all},
                                  {"seconds", seconds}};
  std::puts(metrics::json_object(record).c_str());
}

}  // namespace

std::string doctor_text(const Findings& findings) {
  constexpr std::size_t kStateWidth = 7;
  std::size_t name_width = 0;
  for (const auto& finding : findings) name_width = std::max(name_width, finding.name.size());
  const auto padded = [](std::string text, std::size_t width) {
    text.resize(std::max(width, text.size()), ' ');
    return text;
  };
  std::string out, section;
  for (const auto& finding : findings) {
    if (finding.section != section) out += cat(out.empty() ? "" : "\n", section = finding.section, "\n");
    out += cat("  ", padded(word(finding.state), kStateWidth), "  ", padded(finding.name, name_width), "  ",
               finding.value, "\n");
    if (!finding.advice.empty())
      out += cat(std::string(2 + kStateWidth + 2 + name_width + 2, ' '), "-> ", finding.advice, "\n");
  }
  const auto problems = texts(findings, State::problem).size(), notes = texts(findings, State::note).size();
  const auto count = [](std::size_t n, const char* what) { return cat(n, " ", what, n == 1 ? "" : "s"); };
  return cat(out, "\n", problems ? "NOT ready to train: " : "ready to train: ", count(problems, "problem"),
             ", ", count(notes, "note"), "\n");
}

int doctor_command(const Options& options) {
  const double begin = now_seconds();
  Findings findings;
  std::vector<std::string> usable;
  examine_versions(findings);
  examine_processor(findings);
  examine_memory(findings);
  examine_transports(findings, usable);
  examine_system(findings);
  if (options.json)
    print_json(findings, usable, now_seconds() - begin);
  else
    std::fputs(doctor_text(findings).c_str(), stdout);
  return texts(findings, State::problem).empty() ? 0 : kExitUserError;
}

}  // namespace tessera::cli
