#include "tessera/checkpoint/huggingface/hf_export.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "tessera/base/error.hpp"
#include "tessera/base/files/mapped_file.hpp"
#include "tessera/checkpoint/folder/folder.hpp"
#include "tessera/checkpoint/format/names.hpp"
#include "tessera/checkpoint/format/shard_file.hpp"
#include "tessera/checkpoint/huggingface/foreign_tensor.hpp"
#include "tessera/checkpoint/huggingface/hf_config.hpp"
#include "tessera/checkpoint/huggingface/tokenizer.hpp"

namespace tessera::checkpoint {

namespace {

namespace fs = std::filesystem;

// What an export copies besides weights: from an attachment or from a folder.
struct OtherFile {
  std::string name;
  std::optional<std::uint32_t> attached;  // its number in the manifest
  FolderFile found = {};                  // else
};

// Weights of other formats, and what speaks of shards, would tell of the model before.
bool speaks_of_weights(const std::string& name) {
  constexpr std::array<std::string_view, 9> kEndings = {
      ".safetensors", ".bin", ".pt", ".pth", ".gguf", ".msgpack", ".h5", ".onnx", ".index.json"};
  return std::ranges::any_of(kEndings, [&](std::string_view ending) { return name.ends_with(ending); });
}

struct OtherFiles {
  std::vector<OtherFile> files;
  std::string from;  // where they come from, for people; empty if there are no files
};

OtherFiles files_in(const std::string& folder, Links links, const std::string& name_of_folder) {
  OtherFiles out;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (speaks_of_weights(name)) continue;
    expect_no_link(entry.path().string(), links);
    if (entry.is_regular_file()) out.files.push_back({name, {}, {folder, name, links}});
  }
  std::ranges::sort(out.files, {}, &OtherFile::name);
  if (!out.files.empty()) out.from = name_of_folder;
  return out;
}

OtherFiles other_files(const Checkpoint& from, const std::string& like, Links links) {
  if (!like.empty()) {
    if (!fs::is_directory(like)) throw UserError(cat("--like ", like, ": there is no such folder"));
    return files_in(like, links, like);
  }
  OtherFiles out;
  const auto& files = from.manifest().files;
  for (std::uint32_t i = 0; i < files.size(); ++i)
    if (files[i].name.starts_with(kAttachedPrefix))
      out.files.push_back({files[i].name.substr(std::string_view(kAttachedPrefix).size()), i});
  if (!out.files.empty()) {
    out.from = "the import";
    return out;
  }
  const auto kept = kept_tokenizer(from.folder());
  return kept ? files_in(*kept, links, "the run") : out;
}

class Export {
 public:
  Export(Checkpoint& from, const std::string& folder, const Told& told)
      : from_(from), folder_(folder), told_(told) {}

  void expect_bytes(std::uint64_t bytes) { all_ = bytes; }
  std::uint64_t done() const { return done_; }

  void write(const ForeignTensor& tensor, NewFile& out) {
    for_each_block(tensor, from_, [&](std::span<const std::byte> block) {
      out.append(block);
      tell(block.size());
    });
  }
  // Bytes [begin, begin + count) of an attachment.
  void copy(std::uint32_t file, std::uint64_t begin, std::uint64_t count, NewFile& out) {
    std::vector<std::byte> block;
    for (std::uint64_t done = 0; done < count; done += block.size()) {
      block.resize(std::min<std::uint64_t>(kChunkBytes, count - done));
      from_.file(file).read(begin + done, block);
      out.append(block);
    }
  }
  void copy(const OtherFile& file) {
    NewFile out(folder_, file.name);
    if (file.attached)
      copy(*file.attached, 0, from_.file(*file.attached).bytes(), out);
    else
      out.append(MappedFile(file.found).bytes());
    out.finish();
  }
  std::string text_of(const OtherFile& file) {
    if (!file.attached) return std::string(MappedFile(file.found).text());
    std::string out(from_.file(*file.attached).bytes(), '\0');
    from_.file(*file.attached).read(0, std::as_writable_bytes(std::span(out)));
    return out;
  }
  void write_text(const std::string& name, const std::string& text) const {
    NewFile out(folder_, name);
    out.append(std::as_bytes(std::span(text)));
    out.finish();
  }
  void tell(std::uint64_t bytes) {
    done_ += bytes;
    if (told_) told_(done_, all_);
  }

  Checkpoint& from_;
  std::string folder_;

 private:
  const Told& told_;
  std::uint64_t done_ = 0, all_ = 0;
};

std::optional<std::uint32_t> attachment(const Manifest& manifest, const std::string& name) {
  for (std::uint32_t i = 0; i < manifest.files.size(); ++i)
    if (manifest.files[i].name == name) return i;
  return std::nullopt;
}

// Names of safetensors files whose headers are attached, with the numbers of these.
std::map<std::string, std::uint32_t> attached_headers(const Manifest& manifest) {
  std::map<std::string, std::uint32_t> out;
  const std::string_view prefix = kHeaderPrefix, suffix = kHeaderSuffix;
  for (std::uint32_t i = 0; i < manifest.files.size(); ++i)
    if (const auto& name = manifest.files[i].name; name.starts_with(prefix) && name.ends_with(suffix))
      out[name.substr(prefix.size(), name.size() - prefix.size() - suffix.size())] = i;
  return out;
}

// One file as it was: its header, then its tensors in the order of their bytes. Returns how many these are.
std::size_t write_again(Export& to, const std::string& name, std::uint32_t header_file) {
  Checkpoint& from = to.from_;
  std::vector<std::byte> header(from.file(header_file).bytes());
  from.file(header_file).read(0, header);
  const auto layout = parse_safetensors_layout(from.manifest().files[header_file].name, header);
  std::map<std::string, ForeignTensor> made;
  for (auto& tensor :
       foreign_tensors(from, "", [&](const std::string& t) { return layout.tensors.contains(t); }))
    made[tensor.name] = std::move(tensor);
  std::vector<std::pair<std::uint64_t, std::string>> order;
  for (const auto& [tensor, place] : layout.tensors) order.emplace_back(place.begin, tensor);
  std::ranges::sort(order);
  const auto surplus = attachment(from.manifest(), cat(kHeaderPrefix, name, kSurplusSuffix));
  std::uint64_t taken = 0;
  NewFile out(to.folder_, name);
  out.append(header);
  for (const auto& [begin, tensor] : order) {
    const TensorPlace& place = layout.tensors.at(tensor);
    const auto found = made.find(tensor);
    const bool fits = found == made.end()
                          ? surplus && place.bytes <= from.file(*surplus).bytes() - taken
                          : found->second.bytes(from) == place.bytes && found->second.dtype == place.dtype;
    if (!fits)
      throw UserError(cat("checkpoint '", from.folder(), "': '", tensor, "' of ", name,
                          " is not what the attached header says. Export with --dtype writes new files."));
    if (found != made.end()) {
      to.write(found->second, out);
    } else {
      to.copy(*surplus, taken, place.bytes, out);
      to.tell(place.bytes);
      taken += place.bytes;
    }
  }
  out.finish();
  return order.size();
}

ExportSummary export_as_imported(Export& to) {
  const Manifest& manifest = to.from_.manifest();
  const auto headers = attached_headers(manifest);
  std::uint64_t bytes = 0;
  for (const Piece& piece : manifest.pieces) bytes += bytes_of(piece, manifest.tensors.at(piece.tensor));
  for (const auto& [name, header] : headers)
    if (const auto surplus = attachment(manifest, cat(kHeaderPrefix, name, kSurplusSuffix)))
      bytes += manifest.files[*surplus].bytes;
  to.expect_bytes(bytes);
  std::size_t num_tensors = 0;
  for (const auto& [name, header] : headers) num_tensors += write_again(to, name, header);
  const auto others = other_files(to.from_, "", Links::refused).files;
  for (const auto& file : others) to.copy(file);
  return {.num_tensors = num_tensors,
          .num_shards = headers.size(),
          .num_files = others.size(),
          .bytes = to.done(),
          .dtype = "",
          .files_from = "the import"};
}

// What the architecture decides must be equal.
void expect_same_model(const spec::Model& ours, const foreign::HfModel& theirs, const std::string& where) {
  spec::Model compared = theirs.model;
  compared.sequence = ours.sequence;
  compared.init_std = ours.init_std;
  compared.dropout = ours.dropout;
  compared.weights = ours.weights;
  compared.follow_links = ours.follow_links;
  // How experts are kept busy is no part of the architecture, unless it has a parameter.
  if (ours.balance != spec::Balance::bias) compared.balance = ours.balance;
  compared.balance_weight = ours.balance_weight;
  compared.router_z_weight = ours.router_z_weight;
  compared.capacity_factor = ours.capacity_factor;
  if (spec::in_one_form(compared) != spec::in_one_form(ours))
    throw UserError(
        cat("the config.json ", where,
            " describes another model than the checkpoint holds. Name a folder of the same model with "
            "--like."));
}

std::vector<std::vector<ForeignTensor>> dealt(std::vector<ForeignTensor> tensors, const Checkpoint& from,
                                              std::uint64_t most) {
  std::vector<std::vector<ForeignTensor>> shards(1);
  std::uint64_t held = 0;
  for (auto& tensor : tensors) {
    const std::uint64_t bytes = tensor.bytes(from);
    if (held + bytes > most && !shards.back().empty()) {
      shards.emplace_back();
      held = 0;
    }
    held += bytes;
    shards.back().push_back(std::move(tensor));
  }
  return shards;
}

std::string shard_name(std::size_t number, std::size_t count) {
  const auto five = [](std::size_t n) { return padded(static_cast<std::int64_t>(n), 5); };
  return count == 1 ? "model.safetensors"
                    : cat("model-", five(number + 1), "-of-", five(count), ".safetensors");
}

void write_shards(Export& to, const std::vector<std::vector<ForeignTensor>>& shards) {
  nlohmann::ordered_json map;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const std::string name = shard_name(i, shards.size());
    std::vector<HeaderEntry> entries;
    for (const auto& tensor : shards[i]) {
      entries.push_back({tensor.name, tensor.dtype, whole_box(tensor.shape(to.from_))});
      map[tensor.name] = name;
    }
    const std::string header = shard_header(entries);
    NewFile out(to.folder_, name);
    out.append(std::as_bytes(std::span(header)));
    for (const auto& tensor : shards[i]) to.write(tensor, out);
    out.finish();
  }
  if (shards.size() == 1) return;
  const nlohmann::ordered_json index = {{"metadata", {{"total_size", to.done()}}}, {"weight_map", map}};
  to.write_text(kIndexName, index.dump(2) + "\n");
}

std::string model_type(const std::string& config) {
  return nlohmann::json::parse(config).value("model_type", "");
}

// The model that the run trained, or that was imported.
spec::Model model_of(const Manifest& manifest, const std::optional<foreign::HfModel>& attached) {
  if (!manifest.config.empty())
    return spec::parse_unchecked(manifest.config, "the checkpoint's run file").model;
  if (!attached)
    throw UserError(
        "the checkpoint has neither a run file nor a config.json, so its model is not known. Name a "
        "folder of the same model with --like.");
  spec::Model model = attached->model;
  model.sequence = attached->max_positions;
  return model;
}

ExportSummary export_anew(Export& to, const ExportOptions& options) {
  const auto [others, others_from] = other_files(to.from_, options.like, options.links);
  const auto config = std::ranges::find(others, kConfigName, &OtherFile::name);
  const std::string where = options.like.empty() ? "of the import" : cat("in ", options.like);
  std::optional<foreign::HfModel> described;
  if (config != others.end()) described = hf_model(to.text_of(*config), cat(kConfigName, " ", where));
  const spec::Model model = model_of(to.from_.manifest(), described);
  if (described) expect_same_model(model, *described, where);
  ExportSummary summary{.dtype = options.dtype};
  if (summary.dtype.empty() && described) summary.dtype = described->dtype;
  if (summary.dtype.empty()) summary.dtype = "F32";
  const std::string written_config =
      described ? with_dtype(to.text_of(*config), summary.dtype, model) : hf_config(model, summary.dtype);
  auto tensors = foreign_tensors(to.from_, summary.dtype, model_type(written_config));
  std::uint64_t bytes = 0;
  for (const auto& tensor : tensors) bytes += tensor.bytes(to.from_);
  summary.num_tensors = tensors.size();
  to.expect_bytes(bytes);
  const auto shards = dealt(std::move(tensors), to.from_, options.most_shard_bytes);
  write_shards(to, shards);
  to.write_text(kConfigName, written_config);
  summary.num_files = 1;
  for (const auto& file : others) {
    if (file.name == kConfigName || speaks_of_weights(file.name)) continue;
    to.copy(file);
    ++summary.num_files;
  }
  summary.num_shards = shards.size();
  summary.bytes = bytes;
  summary.files_from = others_from;
  return summary;
}

}  // namespace

ExportSummary export_folder(Checkpoint& from, const std::string& to, const ExportOptions& options,
                            const Told& told) {
  NewFolder folder(to);
  Export out(from, folder.path(), told);
  const Manifest& manifest = from.manifest();
  const bool as_imported = manifest.config.empty() && options.dtype.empty() && options.like.empty() &&
                           !attached_headers(manifest).empty();
  const ExportSummary summary = as_imported ? export_as_imported(out) : export_anew(out, options);
  folder.commit();
  return summary;
}

}  // namespace tessera::checkpoint
