// What a session's steps compute with: samples as batches, and the experts that their tokens choose.
#include <cmath>
#include <numeric>

#include "tessera/data/batch_plan.hpp"
#include "tessera/data/byte_corpus.hpp"
#include "tessera/tensor/device.hpp"
#include "tessera/train/session.hpp"

namespace tessera::train {

using tensor::Tensor;

namespace {

// What a head's gradient is narrowed with in the forward, when the valid tokens are not counted yet: scale /
// tokens, all of them taken as valid. A power of two, so that it rounds nothing.
double head_gradient_factor(const SessionPlan& plan, double loss_scale) {
  if (plan.layout.precision != spec::Precision::fp16) return 1;
  const double tokens = static_cast<double>(plan.training.global_batch * plan.model.sequence);
  return std::exp2(std::round(std::log2(loss_scale / tokens)));
}

}  // namespace

// Of whole samples, what lies at this rank's positions.
tensor::Tensor Session::mine(std::span<const std::int64_t> whole) const {
  const auto sequence = static_cast<std::size_t>(plan_.model.sequence);
  Tensor out = tensor::empty({static_cast<std::int64_t>(whole.size() / sequence * context_.positions.size())},
                             at::kLong);
  auto* to = out.mutable_data_ptr<std::int64_t>();
  for (std::size_t first = 0; first < whole.size(); first += sequence)
    for (const std::int64_t position : context_.positions)
      *to++ = whole[first + static_cast<std::size_t>(position)];
  return out;
}

// By the byte that ends one: the first token of a document is not what the last of another is followed by.
void Session::end_documents(std::span<const std::int64_t> tokens, std::span<std::int64_t> targets,
                            std::span<std::int64_t> documents) const {
  const auto end = static_cast<std::int64_t>(static_cast<unsigned char>(plan_.document_end.front()));
  const auto sequence = static_cast<std::size_t>(plan_.model.sequence);
  std::int64_t document = 0;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (i % sequence == 0) document = 0;
    documents[i] = document;
    if (tokens[i] != end) continue;
    targets[i] = data::kIgnoredTarget;
    ++document;
  }
}

namespace {

// Tokens and targets become those of the next position. Of the last one, and of the last one of a document,
// no target is known.
void look_ahead(std::span<std::int64_t> tokens, std::span<std::int64_t> targets,
                std::span<const std::int64_t> documents, std::size_t sequence) {
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const bool has_next = (i + 1) % sequence != 0;
    targets[i] = has_next && documents[i] == documents[i + 1] ? targets[i + 1] : data::kIgnoredTarget;
    tokens[i] = has_next ? tokens[i + 1] : 0;
  }
}

// Where the documents of each row end.
parallel::Documents documents_of(std::span<const std::int64_t> documents, std::size_t sequence) {
  parallel::Documents out;
  for (std::size_t first = 0; first < documents.size(); first += sequence) {
    auto& ends = out.ends.emplace_back();
    for (std::size_t i = 1; i <= sequence; ++i)
      if (i == sequence || documents[first + i] != documents[first + i - 1])
        ends.push_back(static_cast<std::int64_t>(i));
  }
  return out;
}

}  // namespace

// Of the tokens at this rank's positions, their places in the order of samples and positions.
tensor::Tensor Session::order_of(std::span<const std::uint64_t> samples, std::uint64_t first) const {
  const auto sequence = static_cast<std::size_t>(plan_.model.sequence);
  std::vector<std::int64_t> whole(samples.size() * sequence);
  for (std::size_t i = 0; i < whole.size(); ++i)
    whole[i] = static_cast<std::int64_t>((samples[i / sequence] - first) * sequence + i % sequence);
  return mine(whole);
}

void Session::record_choices() {
  const std::string& path = plan_.training.record_choices;
  if (rank_ == 0) make_choice_file(path, choice_shape(plan_.model, plan_.training));
  meet();
  recorded_choices_.emplace(path);
  for (StepChoices& of_step : choices_)
    of_step.made.resize(static_cast<std::size_t>(plan_.program.tables.num_micro));
}

model::ByLayer Session::replayed(std::span<const std::uint64_t> samples) const {
  const auto sequence = static_cast<std::size_t>(plan_.model.sequence);
  std::vector<std::int64_t> places(samples.size() * sequence);
  std::iota(places.begin(), places.end(), 0);
  const Tensor places_T = mine(places);
  model::ByLayer out;
  for (std::int64_t layer = plan_.model.dense_layers; layer < plan_.model.blocks(); ++layer) {
    if (!model_[static_cast<std::size_t>(layer) + 1]) continue;  // after the embedding
    std::vector<std::int64_t> all;
    for (const std::uint64_t sample : samples) {
      const auto chosen = replayed_choices_->read(sample, layer - plan_.model.dense_layers);
      all.insert(all.end(), chosen.begin(), chosen.end());
    }
    const Tensor all_TK = tensor::indices(all).view({-1, plan_.model.experts_per_token});
    out[static_cast<std::size_t>(layer)] = tensor::on_device(all_TK.index_select(0, places_T), device_);
  }
  return out;
}

// Each token's choice is made by one rank.
void Session::write_choices(const Begun& step) {
  for (model::ByLayer& of_micro_batch : choices_of(step.step).made) {
    for (const auto& [layer, made] : of_micro_batch) {
      const Tensor here = tensor::on_host(made).contiguous();
      recorded_choices_->write_rows(
          step.first, static_cast<std::int64_t>(layer) - plan_.model.dense_layers,
          {here.const_data_ptr<std::int64_t>(), static_cast<std::size_t>(here.numel())});
    }
    of_micro_batch.clear();
  }
}

// Ranks whose samples have ended still hold experts for those of others.
model::Batch Session::padding() const {
  model::Batch batch;
  batch.samples = 1;
  const std::vector<std::int64_t> zeros(static_cast<std::size_t>(plan_.model.sequence), 0);
  const auto filled = [&](double value) { return tensor::on_device(mine(zeros).fill_(value), device_); };
  batch.tokens_T = filled(0);
  batch.targets_T = filled(data::kIgnoredTarget);
  batch.counted_T = batch.targets_T.ge(0);
  batch.order_T = batch.tokens_T;
  batch.tokens_ahead_T = batch.tokens_T;
  batch.targets_ahead_T = batch.targets_T;
  if (plan_.has_documents) batch.documents.ends = {{plan_.model.sequence}};
  if (plan_.model.dropout > 0)
    batch.sample_indices_B = tensor::on_device(tensor::indices(std::vector<std::int64_t>{0}), device_);
  return batch;
}

engine::StepInput Session::input_of(const Reading& reading) const {
  engine::StepInput input;
  input.loss_scale = loss_scale_.value();
  if (is_server_) {
    input.micro_batches.resize(static_cast<std::size_t>(plan_.program.tables.num_micro));
    return input;
  }
  const std::int64_t sequence = plan_.model.sequence;
  const auto on_device = [&](const Tensor& t) { return tensor::on_device(t, device_); };
  const std::vector<std::int64_t> by_rank = plan_.layout.unequal_micro_batches();
  for (std::int64_t micro = 0; micro < plan_.program.tables.num_micro; ++micro) {
    const auto samples =
        reading.trains && !by_rank.empty()
            ? data::samples_of(reading.first, data_rank_, by_rank, plan_.layout.micro_batch, micro)
            : data::samples_of(reading.first, reading.count, data_rank_, plan_.layout.dp(),
                               plan_.layout.micro_batch, micro);
    StepChoices& kept = choices_of(reading.step);
    auto dispatches =
        std::make_shared<model::Batch::Dispatches>(static_cast<std::size_t>(plan_.model.blocks()));
    if (samples.empty() && meets_other_samples_) {
      input.micro_batches.push_back(padding());
      input.micro_batches.back().dispatches = std::move(dispatches);
      continue;
    }
    model::Batch batch;
    batch.dispatches = std::move(dispatches);
    if (reading.trains) batch.choices = std::make_shared<model::ByLayer>(), batch.loads = &kept.loads;
    if (reading.trains && replayed_choices_) batch.replayed = replayed(samples);
    if (reading.trains && recorded_choices_) batch.made = &kept.made[static_cast<std::size_t>(micro)];
    batch.head_gradient_factor = head_gradient_factor(plan_, input.loss_scale);
    const std::size_t elements = samples.size() * static_cast<std::size_t>(sequence);
    std::vector<std::int64_t> tokens(elements), targets(elements), documents(elements);
    reading.source(samples, tokens, targets, documents);
    if (!plan_.document_end.empty()) end_documents(tokens, targets, documents);
    // Ranks of tp that share the samples have equally many: the last are padding, which counts nowhere.
    const auto sharers = static_cast<std::size_t>(plan_.layout.tp_samples());
    const std::size_t held = (samples.size() + sharers - 1) / sharers * sharers;
    batch.samples = static_cast<std::int64_t>(held);
    tokens.resize(held * static_cast<std::size_t>(sequence));
    targets.resize(tokens.size(), data::kIgnoredTarget);
    documents.resize(tokens.size());
    if (reading.drops && plan_.model.dropout > 0) {
      std::vector<std::int64_t> indices(samples.begin(), samples.end());
      indices.resize(held);
      batch.sample_indices_B = on_device(tensor::indices(indices));
    }
    if (plan_.has_documents) batch.documents = documents_of(documents, static_cast<std::size_t>(sequence));
    batch.tokens_T = on_device(mine(tokens));
    batch.targets_T = mine(targets);
    input.valid_tokens += batch.targets_T.ge(0).sum().item<double>();
    batch.targets_T = on_device(batch.targets_T);
    if (plan_.model.mtp_layers > 0) {
      look_ahead(tokens, targets, documents, static_cast<std::size_t>(sequence));
      batch.tokens_ahead_T = on_device(mine(tokens));
      const Tensor ahead = mine(targets);
      input.tokens_ahead += ahead.ge(0).sum().item<double>();
      batch.targets_ahead_T = on_device(ahead);
    }
    if (plan_.model.experts > 0) {
      const Tensor documents_T = mine(documents), counted_T = documents_T.ne(data::kPadding);
      const double counted = counted_T.sum().item<double>();
      input.positions += counted;
      if (counted < static_cast<double>(counted_T.numel())) batch.counted_T = on_device(counted_T);
      batch.order_T = on_device(order_of(samples, reading.first));
    }
    input.micro_batches.push_back(std::move(batch));
  }
  return input;
}

engine::StepInput Session::input_of_step(std::size_t ahead) {
  const std::int64_t step = steps_ + 1 + static_cast<std::int64_t>(ahead);
  const During reading(log_, Doing::reading_data, step);
  return input_of({.source = source_,
                   .first = cursor_ + ahead * static_cast<std::uint64_t>(plan_.training.global_batch),
                   .count = plan_.training.global_batch,
                   .drops = true,
                   .trains = true,
                   .step = step});
}

}  // namespace tessera::train
