#include <algorithm>
#include <limits>

#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"
#include "tessera/cli/ask/ask_commands.hpp"
#include "tessera/cli/ask/print_now.hpp"
#include "tessera/collective/group.hpp"
#include "tessera/data/indexed/indexed_file.hpp"
#include "tessera/generate/choices.hpp"
#include "tessera/generate/opened_model.hpp"
#include "tessera/metrics/display/progress_bar.hpp"
#include "tessera/metrics/field.hpp"
#include "tessera/train/evaluate.hpp"

namespace tessera::cli {
namespace {

constexpr std::int64_t kSamplesAtATime = 8;

// What is evaluated on, in the place of what the model was trained on.
void name_data(const AskOptions& options, generate::OpenedModel& opened) {
  spec::Run& run = opened.run;
  if (options.data.empty()) return;
  const std::string tokenizer = generate::tokenizer_name(opened, options.tokenizer);
  run.data = {.packing = run.data.packing, .bytes_as_tokens = run.data.bytes_as_tokens};
  run.evaluation.path.clear();
  if (data::is_pair(data::pair_name(options.data))) {
    run.data.sources = options.data;
    run.data.tokenizer = tokenizer;
  } else {
    run.data.packing = spec::Packing::cut;
    run.evaluation.path = options.data;
  }
}

spec::Run run_of(const AskOptions& options, const generate::OpenedModel& opened) {
  std::vector<std::string> overrides = {
      cat("training.global_batch=", kSamplesAtATime * std::max(options.procs, 1))};
  if (options.procs > 1) overrides.push_back(cat("layout.dp=", options.procs));
  overrides.insert(overrides.end(), options.overrides.begin(), options.overrides.end());
  return generate::run_of(opened, overrides);
}

std::string to_text(const generate::ChoiceScore& score) {
  const auto percent = [](const generate::Accuracy& accuracy) {
    return cat(fixed(100 * accuracy.share, 2), " % right (standard error ", fixed(100 * accuracy.error, 2),
               ")");
  };
  return cat(score.questions, " questions: ", percent(score.plain), "; by length of the choices ",
             percent(score.by_length), "\n");
}

metrics::Record to_record(const metrics::EvaluationFacts& facts) {
  return {{"loss", facts.loss},
          {"perplexity", facts.perplexity()},
          {"bits_per_byte", facts.bits_per_byte().value_or(std::numeric_limits<double>::quiet_NaN())},
          {"samples", facts.samples},
          {"seconds", facts.seconds}};
}

metrics::Record to_record(const generate::ChoiceScore& score, std::span<const generate::Answered> answered) {
  std::vector<metrics::Record> items;
  for (const generate::Answered& each : answered)
    items.push_back({{"log_likelihoods", each.log_likelihoods},
                     {"picked", static_cast<std::int64_t>(each.picked)},
                     {"picked_by_length", static_cast<std::int64_t>(each.picked_by_length)}});
  return {{"questions", static_cast<std::int64_t>(score.questions)},
          {"accuracy", score.plain.share},
          {"accuracy_error", score.plain.error},
          {"accuracy_by_length", score.by_length.share},
          {"accuracy_by_length_error", score.by_length.error},
          {"items", items}};
}

int evaluate_choices(const AskOptions& options, const generate::OpenedModel& opened) {
  const auto questions = generate::read_questions(options.questions);
  const auto tokenizer = generate::tokenizer_of(opened, options.tokenizer);
  const spec::Run run = run_of(options, opened);
  generate::expect_all_logits(run, "--choices runs");
  generate::ChoiceOptions how{.delimiter = options.delimiter, .batch = options.batch};
  how.empty_context = tokenizer->prefix();
  if (how.empty_context.empty())
    for (const auto end : generate::end_tokens(opened, *tokenizer)) how.empty_context = {end};
  return job::on_ranks(run, options, [&](const job::Rank& rank) {
    const auto session = generate::session_of(opened, run, rank.communicator, rank.log);
    const bool prints = rank.communicator.rank() == 0;
    std::vector<generate::Answered> answered;
    {
      std::optional<metrics::ProgressBar> bar;
      if (prints) how.progress = bar.emplace("answering", "questions").progress();
      answered = generate::answer(*session, *tokenizer, questions, how);
    }
    const auto score = generate::score(questions, answered);
    if (prints)
      print_now(options.json ? metrics::json_object(to_record(score, answered)) + "\n" : to_text(score));
  });
}

int evaluate_loss(const AskOptions& options, const generate::OpenedModel& opened) {
  const spec::Run run = run_of(options, opened);
  return job::on_ranks(run, options, [&](const job::Rank& rank) {
    const train::HeldOut samples = options.data.empty()
                                       ? train::held_out(run.data, run.model, run.evaluation)
                                       : train::everything(run.data, run.model, run.evaluation);
    const auto session = generate::session_of(opened, run, rank.communicator, rank.log);
    const bool prints = rank.communicator.rank() == 0;
    metrics::EvaluationFacts facts;
    {
      std::optional<metrics::ProgressBar> bar;
      train::Session::Progress progress;
      if (prints) progress = bar.emplace("evaluating", "samples").progress();
      facts = train::evaluate(*session, samples, progress);
    }
    if (prints)
      print_now(options.json ? metrics::json_object(to_record(facts)) + "\n"
                             : metrics::to_text(facts) + "\n");
  });
}

}  // namespace

int evaluate_command(const AskOptions& options) {
  generate::OpenedModel opened = generate::open_model(options.file, options.links);
  if (!options.questions.empty() && !options.data.empty())
    throw UserError("--data and --choices ask for two numbers; name one of them");
  if (!options.questions.empty()) return evaluate_choices(options, opened);
  if (options.data.empty() && opened.run.evaluation.path.empty() && opened.run.data.validation == 0)
    throw UserError(
        cat(options.file, " holds nothing out. Name a text with --data, or questions with --choices."));
  name_data(options, opened);
  return evaluate_loss(options, opened);
}

}  // namespace tessera::cli
