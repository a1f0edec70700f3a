#include "tessera/cli/doctor/doctor.hpp"
#include "tessera/collective/transports/transports.hpp"

namespace tessera::cli {

namespace {

State to_state(collective::Trial::Result result) {
  switch (result) {
    case collective::Trial::Result::works:
    case collective::Trial::Result::absent:
      return State::ok;
    case collective::Trial::Result::unusable:
      return State::note;
    case collective::Trial::Result::broken:
      break;
  }
  return State::problem;
}

}  // namespace

void examine_transports(Findings& findings, std::vector<std::string>& usable) {
  for (const spec::TransportEntry& entry : spec::kTransports) {
    const std::string name(entry.name);
    const collective::Trial trial = collective::transport(entry.transport).try_out();
    findings.push_back({"transports", name, to_state(trial.result), trial.found, trial.advice});
    if (trial.result == collective::Trial::Result::works) usable.push_back(name);
  }
}

}  // namespace tessera::cli
