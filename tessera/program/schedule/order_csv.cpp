#include "tessera/program/schedule/order_csv.hpp"

#include <algorithm>
#include <charconv>
#include <map>

#include "tessera/base/error.hpp"
#include "tessera/program/schedule/walk_order.hpp"

namespace tessera::program {
namespace {

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

// The part up to the separator; `text` goes on behind it.
std::string_view take_until(std::string_view& text, char separator) {
  const std::size_t length = std::min(text.find(separator), text.size());
  const std::string_view out = text.substr(0, length);
  text.remove_prefix(std::min(length + 1, text.size()));
  return out;
}

class Reader {
 public:
  Order read(std::string_view text) {
    for (std::size_t row = 1; !text.empty(); ++row) {
      std::string_view line = take_until(text, '\n');
      if (trimmed(line).empty() && text.find_first_not_of(" \t\r\n") == std::string_view::npos) break;
      out_.ranks.emplace_back();
      for (std::size_t column = 1; !line.empty(); ++column) {
        where_ = cat("row ", row, ", column ", column);
        read_cell(trimmed(take_until(line, ',')));
      }
      if (out_.ranks.back().empty())
        throw UserError(
            cat("schedule file, row ", row, ": this rank has no task; write a row for each rank"));
    }
    if (out_.ranks.empty())
      throw UserError("schedule file: there are no tasks; write a row per rank with cells such as 0F0,0B0");
    finish();
    return std::move(out_);
  }

 private:
  struct Seen {
    std::string where;
    std::uint32_t rank;
  };

  [[noreturn]] void fail(const std::string& what) const {
    throw UserError(cat("schedule file, ", where_, ": ", what));
  }

  void read_cell(std::string_view cell) {
    if (cell.empty()) return;
    if (cell.front() != '(') return read_task(cell);
    const std::size_t close = cell.find(')');
    if (close == std::string_view::npos || cell.substr(close + 1) != "OVERLAP_F_B")
      fail(cat("'", cell, "' is no pair of tasks, such as (4F1;3B0)OVERLAP_F_B"));
    for (std::string_view pair = cell.substr(1, close - 1); !pair.empty();)
      read_task(trimmed(take_until(pair, ';')));
  }

  void read_task(std::string_view cell) {
    const char* const end = cell.data() + cell.size();
    Task task;
    const auto [letter, stage_error] = std::from_chars(cell.data(), end, task.stage);
    const auto kind = letter == end ? std::nullopt : op_kind_of(*letter);
    if (stage_error == std::errc() && kind && is_compute(*kind) && *kind != OpKind::recompute) {
      task.what = *kind;
      const auto [rest, micro_error] = std::from_chars(letter + 1, end, task.micro);
      if (micro_error == std::errc() && rest == end && task.micro >= 0) return add(task);
    }
    fail(cat("'", cell,
             "' is no task; write the stage, F, B, I or W, and the micro-batch, such as 2F0 (and no sends or "
             "receives: they are derived)"));
  }

  void add(const Task& task) {
    constexpr std::int32_t kMostMicro = 1 << 24;
    if (task.micro >= kMostMicro) fail(cat(word(task), ": up to ", kMostMicro, " micro-batches are read"));
    const auto rank = static_cast<std::uint32_t>(out_.ranks.size() - 1);
    const auto [stage, is_new_stage] = stages_.try_emplace(task.stage, Seen{where_, rank});
    if (!is_new_stage && stage->second.rank != rank)
      fail(cat(word(task), " lies on rank ", rank, ", but stage ", task.stage, " began on rank ",
               stage->second.rank, " (", stage->second.where, "); a stage has one rank"));
    const auto [seen, is_new] = tasks_.try_emplace(task, where_);
    if (!is_new) fail(cat(word(task), " is there already, at ", seen->second));
    out_.ranks.back().push_back(task);
    out_.num_micro = std::max(out_.num_micro, task.micro + 1);
  }

  bool has(OpKind what, std::uint32_t stage, std::int32_t micro) const {
    return tasks_.contains({what, stage, micro});
  }

  // What must be there for every stage and micro-batch; stops at the first that lacks, so large numbers cost
  // nothing.
  void finish() {
    std::uint32_t stage = 0;
    for (const auto& [number, seen] : stages_) {
      if (number != stage)
        throw UserError(cat("schedule file: stage ", stage, " has no task, but there is a stage ", number,
                            " (", seen.where, "); number stages from 0 without gaps"));
      for (std::int32_t micro = 0; micro < out_.num_micro; ++micro) need_task(stage, micro);
      out_.rank_of_stage.push_back(seen.rank);
      ++stage;
    }
    const Walk walked = walk(out_, {std::vector<StageCost>(stage)});
    if (!walked.stuck.empty()) throw UserError(cat("schedule file: this order never ends: ", walked.stuck));
  }

  void need_task(std::uint32_t stage, std::int32_t micro) const {
    const auto missing = [&](OpKind what, const char* hint) {
      throw UserError(cat("schedule file: ", word({what, stage, micro}), " is missing", hint, " (there are ",
                          out_.num_micro, " micro-batches)"));
    };
    const bool whole = has(OpKind::backward, stage, micro), input = has(OpKind::backward_input, stage, micro),
               weight = has(OpKind::backward_weight, stage, micro);
    if (!has(OpKind::forward, stage, micro)) missing(OpKind::forward, "");
    if (whole && (input || weight))
      throw UserError(cat("schedule file: ", word({OpKind::backward, stage, micro}), " (",
                          tasks_.at({OpKind::backward, stage, micro}),
                          ") is a whole backward, and there is a half too, ",
                          word({input ? OpKind::backward_input : OpKind::backward_weight, stage, micro}),
                          "; write B, or I and W"));
    if (!whole && !input && !weight) missing(OpKind::backward, ", or its halves I and W");
    if (!whole && !input) missing(OpKind::backward_input, ", the other half of W");
    if (!whole && !weight) missing(OpKind::backward_weight, ", the other half of I");
  }

  Order out_;
  std::string where_;
  std::map<std::uint32_t, Seen> stages_;
  std::map<Task, std::string> tasks_;
};

}  // namespace

Order parse_order_csv(std::string_view text) { return Reader().read(text); }

std::string to_csv(const Order& order) {
  std::string out;
  for (const auto& tasks : order.ranks) {
    for (std::size_t i = 0; i < tasks.size(); ++i) out += cat(i == 0 ? "" : ",", word(tasks[i]));
    out += '\n';
  }
  return out;
}

}  // namespace tessera::program
