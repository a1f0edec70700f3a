// The bare step as a process that can be interleaved with others:
//   bare_step_main layers=8 hidden=320 ... precision=bf16
// answers each line "step N" on its input with one JSON line: seconds of each of N steps, on the wall and of
// this process alone, and the loss of the last.
#include <malloc.h>

#include <chrono>
#include <cstdlib>
#include <ctime>
#include <iomanip>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "tessera/bare/bare_step.hpp"

namespace {

// "" or what is wrong with the argument.
std::string set(bare::Config& config, const std::string& argument) {
  const std::map<std::string, std::int64_t bare::Config::*> sizes = {
      {"layers", &bare::Config::layers},
      {"hidden", &bare::Config::hidden},
      {"heads", &bare::Config::heads},
      {"kv_heads", &bare::Config::kv_heads},
      {"ffn", &bare::Config::ffn},
      {"vocab", &bare::Config::vocab},
      {"sequence", &bare::Config::sequence},
      {"batch", &bare::Config::batch},
      {"micro_batch", &bare::Config::micro_batch}};
  const auto equals = argument.find('=');
  const std::string key = argument.substr(0, equals);
  const std::string value = equals == std::string::npos ? "" : argument.substr(equals + 1);
  if (key == "precision" && (value == "fp32" || value == "bf16")) {
    config.precision = value;
  } else if (key == "tied" && (value == "true" || value == "false")) {
    config.tied = value == "true";
  } else if (const auto size = sizes.find(key); size != sizes.end() && std::atoll(value.c_str()) > 0) {
    config.*size->second = std::atoll(value.c_str());
  } else {
    return "cannot use '" + argument + "'; see tessera/bare/bare_step.hpp for the keys";
  }
  return "";
}

// Token i of a stream that bench/peers repeats (Knuth's MMIX generator).
std::vector<std::int64_t> token_stream(std::int64_t size, std::int64_t vocab) {
  std::vector<std::int64_t> tokens;
  for (std::uint64_t x = 1; std::int64_t(tokens.size()) < size;) {
    x = x * 6364136223846793005u + 1442695040888963407u;
    tokens.push_back(std::int64_t((x >> 33) % std::uint64_t(vocab)));
  }
  return tokens;
}

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return double(time.tv_sec) + 1e-9 * double(time.tv_nsec);
}

std::ostream& operator<<(std::ostream& out, const std::vector<double>& list) {
  for (std::size_t i = 0; i < list.size(); ++i) out << (i ? ", " : "[") << list[i];
  return out << ']';
}

}  // namespace

int main(int argc, char** argv) {
  // Keep freed memory, as the tessera binary does: fresh pages cost more than what they hold.
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, -1);
  mallopt(M_TOP_PAD, 64 << 20);
  bare::Config config;
  for (int i = 1; i < argc; ++i) {
    if (const std::string problem = set(config, argv[i]); !problem.empty()) {
      std::cerr << problem << '\n';
      return 2;
    }
  }
  const std::int64_t size = config.batch * config.sequence;
  const auto tokens = token_stream(size + 1, config.vocab);
  bare::BareStep step(config);
  std::cout << "{\"parameters\": " << step.num_parameters() << "}" << std::endl;
  std::cout << std::setprecision(9);
  std::string word;
  for (int n = 0; std::cin >> word >> n && n > 0;) {
    std::vector<double> wall, cpu;
    for (int i = 0; i < n; ++i) {
      const double wall_start = wall_seconds(), cpu_start = cpu_seconds();
      step.step(tokens.data(), tokens.data() + 1);
      wall.push_back(wall_seconds() - wall_start);
      cpu.push_back(cpu_seconds() - cpu_start);
    }
    std::cout << "{\"seconds\": " << wall << ", \"cpu_seconds\": " << cpu << ", \"loss\": " << step.loss()
              << ", \"grad_norm\": " << step.grad_norm() << "}" << std::endl;
  }
}
