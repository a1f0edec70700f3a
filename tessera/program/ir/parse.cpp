#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <utility>

#include "tessera/base/error.hpp"
#include "tessera/program/ir/letters.hpp"
#include "tessera/program/ir/text.hpp"

namespace tessera::program {
namespace {

// Reads one line; every mistake throws UserError with the line's number and what was expected.
class LineParser {
 public:
  LineParser(std::string_view line, std::size_t number, const Tables& tables)
      : line_(line), rest_(line), number_(number), tables_(tables) {}

  bool is_blank() {
    skip_spaces();
    return rest_.empty() || rest_[0] == '#';
  }

  // "class 3": its number.
  std::optional<std::uint32_t> class_header() {
    if (!take("class ")) return std::nullopt;
    const auto value = integer<std::uint32_t>("the number of the class");
    expect_end();
    return value;
  }

  void op_line(Sequence& sequence) {
    const auto at = integer<std::size_t>("the number of the op");
    if (at != sequence.ops.size()) fail(cat("op ", sequence.ops.size(), " comes next, not ", at));
    if (!take(":")) fail("a colon comes after the number of the op");
    skip_spaces();
    Op op = op_word();
    skip_spaces();
    op.lane = lane();
    op.first_wait = static_cast<std::uint32_t>(sequence.waits.size());
    while (!is_blank()) clause(op, sequence);
    sequence.ops.push_back(op);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw UserError(cat("program text, line ", number_, ": ", what, " (at '", rest_, "' of '", line_, "')"));
  }

  void skip_spaces() { rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\r"), rest_.size())); }

  bool take(std::string_view prefix) {
    if (!rest_.starts_with(prefix)) return false;
    rest_.remove_prefix(prefix.size());
    return true;
  }

  template <typename T>
  T integer(std::string_view what) {
    T value{};
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc()) fail(cat("expected ", what, ", a whole number"));
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return value;
  }

  std::string_view name() {
    const std::string_view out = rest_.substr(0, rest_.find_first_of(" \t\r!/"));
    rest_.remove_prefix(out.size());
    return out;
  }

  void expect_end() {
    if (!is_blank()) fail("nothing more is expected on this line");
  }

  Op op_word() {
    Op op;
    if (rest_.empty()) fail("expected an op");
    if (rest_[0] >= '0' && rest_[0] <= '9') {
      op.item = integer<std::uint32_t>("a segment");
      const char letter = next_letter();
      const auto kind = op_kind_of(letter);
      if (letter == kNoTapeLetter) {
        op.flags |= kNoTape;
      } else if (!kind || !is_compute(*kind)) {
        fail(cat("'", letter, "' is no kind of compute; there are ", letters(true), kNoTapeLetter));
      } else {
        op.what = *kind;
      }
      op.micro = integer<std::int32_t>("a micro-batch");
    } else {
      const char letter = next_letter();
      const auto kind = op_kind_of(letter);
      if (!kind || is_compute(*kind))
        fail(cat("'", letter, "' begins no op; there are ", letters(false), " and numbers"));
      op.what = *kind;
      if (info(op.what).item == ItemOf::number) {
        op.item = number_named(name());
      } else if (info(op.what).item == ItemOf::cell) {
        cell(op);
      } else {
        op.item = integer<std::uint32_t>("a bucket or a service");
      }
    }
    if (take("!")) op.flags |= kEndsSource;
    if (take("~")) op.flags |= kOfShard;
    if (take("=")) op.flags |= kUnchanged;
    if (take("+")) op.flags |= kAhead;
    if (take("^")) op.flags |= kOfWorker;
    if (take("_")) op.flags |= kOfServer;
    if (take("/")) op.part = integer<std::uint16_t>("a part");
    return op;
  }

  char next_letter() {
    if (rest_.empty()) fail("the line ends within an op");
    return std::exchange(rest_, rest_.substr(1)).front();
  }

  void cell(Op& op) {
    const std::size_t kind = rest_.empty() ? std::string_view::npos : kCellLetters.find(rest_[0]);
    if (kind != std::string_view::npos) next_letter(), op.flags |= static_cast<std::uint16_t>(kind);
    op.item = integer<std::uint32_t>("the number of a cell");
    if (take(".")) op.micro = integer<std::int32_t>("a micro-batch");
  }

  std::uint32_t number_named(std::string_view wanted) {
    for (std::uint32_t i = 0; i < tables_.numbers.size(); ++i)
      if (tables_.numbers[i].name == wanted) return i;
    fail(cat("there is no number '", wanted, "'"));
  }

  std::int16_t axis_set(std::string_view wanted) {
    for (std::size_t i = 0; i < tables_.axis_sets.size(); ++i)
      if (tables_.axis_sets[i].name == wanted) return static_cast<std::int16_t>(i);
    fail(cat("there is no axis set '", wanted, "'"));
  }

  Lane lane() {
    if (!take("@")) fail("expected the lane: @compute, @ahead, @copy, @update or @ and an axis set");
    const std::string_view wanted = name();
    constexpr std::pair<std::string_view, Lane> kNamed[] = {
        {"compute", kCompute}, {"ahead", kAheadLane}, {"copy", kCopy}, {"update", kUpdate}};
    for (const auto& [lane_name, lane] : kNamed)
      if (wanted == lane_name) return lane;
    if (!wanted.ends_with('-')) return communication(axis_set(wanted));
    return communication(axis_set(wanted.substr(0, wanted.size() - 1)), 1);
  }

  void clause(Op& op, Sequence& sequence) {
    if (take("over ")) {
      op.along = axis_set(name());
    } else if (take("hop ")) {
      op.hop = integer<std::int16_t>("a hop");
    } else if (take("cost ")) {
      op.cost = integer<std::uint32_t>("a cost class");
    } else if (take("wait ")) {
      do {
        const std::uint32_t step = take("^") ? kPreviousStep : 0;
        const auto target = integer<std::uint32_t>("the number of an op");
        if (target & kPreviousStep) fail("the number of an op is too large");
        if (op.num_waits == std::numeric_limits<decltype(op.num_waits)>::max())
          fail(cat("an op can wait for at most ", op.num_waits, " others"));
        sequence.waits.push_back(target | step);
        ++op.num_waits;
      } while (take(","));
    } else {
      fail("expected over, hop, cost or wait");
    }
  }

  std::string_view line_, rest_;
  std::size_t number_;
  const Tables& tables_;
};

}  // namespace

Program parse(std::string_view text, const Tables& tables) {
  Program program{tables, {}};
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t length = std::min(text.find('\n'), text.size());
    LineParser line(text.substr(0, length), number, tables);
    text.remove_prefix(std::min(length + 1, text.size()));
    if (line.is_blank()) continue;
    if (const auto header = line.class_header()) {
      if (*header != program.classes.size())
        throw UserError(cat("program text, line ", number, ": class ", program.classes.size(),
                            " comes next, not ", *header));
      program.classes.emplace_back();
    } else if (program.classes.empty()) {
      throw UserError(cat("program text, line ", number, ": expected 'class 0' before the first op"));
    } else {
      line.op_line(program.classes.back());
    }
  }
  return program;
}

}  // namespace tessera::program
