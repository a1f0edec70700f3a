// Prints one line per layout: a hash of its program's text and one of every field of its tables. Two binaries
// that print the same lines compile the same programs, so a refactoring compares them with diff.
//   build/release/tests/programs 40                    40 layouts of each family in examples/layouts-*.toml
//   build/release/tests/programs 40 --write FOLDER     also writes the hashed text of each layout
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "tessera/base/random.hpp"
#include "tessera/base/text.hpp"
#include "tessera/plan/compile.hpp"
#include "tessera/plan/testing/of_run.hpp"
#include "tessera/planner/variants/layouts.hpp"
#include "tessera/planner/variants/spread.hpp"
#include "tessera/program/ir/text.hpp"
#include "tessera/spec/load.hpp"

namespace tessera {
namespace {

// Appends every field of a struct, one level of indentation deeper than the struct. The number of fields is
// the largest number of initializers that the compiler accepts, so a new field cannot be forgotten.
struct Anything {
  template <typename T>
  operator T() const;  // never defined: it only appears in unevaluated expressions
};

template <typename T, typename... Fields>
constexpr std::size_t num_fields() {
  if constexpr (requires { T{Fields{}..., Anything{}}; })
    return num_fields<T, Fields..., Anything>();
  else
    return sizeof...(Fields);
}

template <typename T>
void dump(const T& value, const std::string& indent, std::string& out);

template <typename... Fields>
void dump_all(const std::string& indent, std::string& out, const Fields&... fields) {
  (dump(fields, indent + " ", out), ...);
}

template <typename T>
void dump_fields(const T& v, const std::string& indent, std::string& out) {
  constexpr std::size_t n = num_fields<T>();
  static_assert(n <= 10 || n == 15 || n == 16 || n == 21 || n == 22 || n == 26 || n == 27,
                "add a line for n fields");
#define FIELDS(count, ...)                     \
  if constexpr (n == count) {                  \
    const auto& [__VA_ARGS__] = v;             \
    return dump_all(indent, out, __VA_ARGS__); \
  }
  FIELDS(1, a)
  FIELDS(2, a, b)
  FIELDS(3, a, b, c)
  FIELDS(4, a, b, c, d)
  FIELDS(5, a, b, c, d, e)
  FIELDS(6, a, b, c, d, e, f)
  FIELDS(7, a, b, c, d, e, f, g)
  FIELDS(8, a, b, c, d, e, f, g, h)
  FIELDS(9, a, b, c, d, e, f, g, h, i)
  FIELDS(10, a, b, c, d, e, f, g, h, i, j)
  FIELDS(15, a, b, c, d, e, f, g, h, i, j, k, l, m, o, p)
  FIELDS(16, a, b, c, d, e, f, g, h, i, j, k, l, m, o, p, q)
  FIELDS(21, a, b, c, d, e, f, g, h, i, j, k, l, m, o, p, q, r, s, t, u, w)
  FIELDS(22, a, b, c, d, e, f, g, h, i, j, k, l, m, o, p, q, r, s, t, u, w, x)
  FIELDS(26, a, b, c, d, e, f, g, h, i, j, k, l, m, o, p, q, r, s, t, u, w, x, y, z, a1, b1)
  FIELDS(27, a, b, c, d, e, f, g, h, i, j, k, l, m, o, p, q, r, s, t, u, w, x, y, z, a1, b1, c1)
#undef FIELDS
}

template <typename T>
void dump(const T& value, const std::string& indent, std::string& out) {
  if constexpr (std::is_enum_v<T>) {
    out += cat(indent, static_cast<std::int64_t>(value), "\n");
  } else if constexpr (std::is_floating_point_v<T>) {
    char text[40];
    std::snprintf(text, sizeof(text), "%a", value);
    out += cat(indent, text, "\n");
  } else if constexpr (std::is_integral_v<T>) {
    out += cat(indent, static_cast<std::int64_t>(value), "\n");
  } else if constexpr (std::is_same_v<T, std::string>) {
    out += cat(indent, "'", value, "'\n");
  } else if constexpr (requires { value.begin(), value.size(); }) {
    out += cat(indent, "list of ", value.size(), "\n");
    for (const auto& each : value) dump(each, indent + " ", out);
  } else {
    dump_fields(value, indent, out);
  }
}

std::string hash_of(std::string_view text) {
  char out[17];
  std::snprintf(out, sizeof(out), "%016llx", static_cast<unsigned long long>(stream_of(text)));
  return out;
}

int print_programs(std::size_t count, const char* folder) {
  for (const char* family : {"llama", "gpt2", "olmo2", "mixtral", "deepseek"}) {
    const spec::Run run = spec::load(cat("examples/layouts-", family, ".toml"));
    const std::vector<spec::Run> listed = planner::listed_layouts(run, {.most_ranks = 8});
    std::size_t number = 0;
    for (const spec::Run& each : planner::drawn_layouts(listed, count, 1)) {
      const program::Program program = plan::compile(each);
      std::string tables;
      dump(program.tables, "", tables);
      const std::string text = program::to_text(program);
      std::printf("%s %s %s %s\n", family, hash_of(text).c_str(), hash_of(tables).c_str(),
                  planner::layout_text(each).c_str());
      if (folder) std::ofstream(cat(folder, "/", family, "-", number++, ".txt")) << text << tables;
    }
  }
  return 0;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  const bool writes = argc == 4 && std::string_view(argv[2]) == "--write";
  const long count = argc > 1 ? std::atol(argv[1]) : 40;
  if (count < 1 || (argc > 2 && !writes)) {
    std::fprintf(stderr, "usage: programs [COUNT] [--write FOLDER]\n");
    return 2;
  }
  if (writes) std::filesystem::create_directories(argv[3]);
  return tessera::print_programs(static_cast<std::size_t>(count), writes ? argv[3] : nullptr);
}
