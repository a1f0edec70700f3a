#include "tessera/launch/net/wire.hpp"

#include "tessera/base/error.hpp"

namespace tessera::launch {
namespace {

void append_number(std::string& out, std::uint64_t x, std::size_t num_bytes) {
  for (std::size_t i = 0; i < num_bytes; ++i) out.push_back(static_cast<char>(x >> (8 * i) & 0xff));
}

std::uint64_t number_at(std::string_view in, std::size_t num_bytes) {
  std::uint64_t x = 0;
  for (std::size_t i = 0; i < num_bytes; ++i)
    x |= std::uint64_t{static_cast<unsigned char>(in[i])} << (8 * i);
  return x;
}

void append_text(std::string& out, std::string_view text) {
  append_number(out, text.size(), 4);
  out += text;
}

void append_texts(std::string& out, const std::vector<std::string>& texts) {
  append_number(out, texts.size(), 4);
  for (const auto& text : texts) append_text(out, text);
}

std::string with_length(const std::string& body) {
  if (body.size() > kMaxBodyBytes)
    throw UserError(cat("a message of ", bytes_text(static_cast<double>(body.size())),
                        " to the key server; at most ", bytes_text(kMaxBodyBytes), " is allowed"));
  std::string message;
  append_number(message, body.size(), kLengthBytes);
  return message + body;
}

// Reads from the front of a body; once something is missing, all further reads fail too.
class Reader {
 public:
  explicit Reader(std::string_view in) : in_(in) {}

  std::uint64_t number(std::size_t num_bytes) {
    const auto bytes = take(num_bytes);
    return good_ ? number_at(bytes, num_bytes) : 0;
  }
  std::string text() { return std::string(take(number(4))); }
  std::vector<std::string> texts() {
    std::vector<std::string> out;
    const std::uint64_t count = number(4);
    // Grows as texts are read: a count that lies costs no memory.
    for (std::uint64_t i = 0; i < count && good_; ++i) out.push_back(text());
    return out;
  }
  bool good() const { return good_; }
  bool ended_well() const { return good_ && in_.empty(); }

 private:
  std::string_view take(std::uint64_t num_bytes) {
    if (num_bytes > in_.size()) good_ = false;
    if (!good_) return {};
    const auto front = in_.substr(0, num_bytes);
    in_.remove_prefix(num_bytes);
    return front;
  }

  std::string_view in_;
  bool good_ = true;
};

}  // namespace

std::string encode(const Request& request) {
  std::string body(1, static_cast<char>(request.kind));
  append_number(body, static_cast<std::uint32_t>(request.rank), 4);
  append_text(body, request.report);
  append_number(body, static_cast<std::uint64_t>(request.timeout_milliseconds), 8);
  append_number(body, request.puts.size(), 4);
  for (const auto& [key, value] : request.puts) {
    append_text(body, key);
    append_text(body, value);
  }
  append_texts(body, request.keys);
  return with_length(body);
}

std::string encode(const Reply& reply) {
  std::string body(1, static_cast<char>(reply.kind));
  append_texts(body, reply.texts);
  return with_length(body);
}

std::optional<Request> parse_request(std::string_view body) {
  Reader in(body);
  Request request;
  const std::uint64_t kind = in.number(1);
  if (kind > static_cast<std::uint64_t>(Request::Kind::join)) return std::nullopt;
  request.kind = static_cast<Request::Kind>(kind);
  request.rank = static_cast<std::int32_t>(static_cast<std::uint32_t>(in.number(4)));
  request.report = in.text();
  request.timeout_milliseconds = static_cast<std::int64_t>(in.number(8));
  const std::uint64_t num_puts = in.number(4);
  for (std::uint64_t i = 0; i < num_puts && in.good(); ++i) {
    std::string key = in.text();
    request.puts.emplace_back(std::move(key), in.text());
  }
  request.keys = in.texts();
  if (!in.ended_well()) return std::nullopt;
  return request;
}

std::optional<Reply> parse_reply(std::string_view body) {
  Reader in(body);
  Reply reply;
  const std::uint64_t kind = in.number(1);
  if (kind > static_cast<std::uint64_t>(Reply::Kind::connected)) return std::nullopt;
  reply.kind = static_cast<Reply::Kind>(kind);
  reply.texts = in.texts();
  if (!in.ended_well()) return std::nullopt;
  return reply;
}

std::uint32_t body_bytes(std::string_view head) {
  return static_cast<std::uint32_t>(number_at(head, kLengthBytes));
}

}  // namespace tessera::launch
