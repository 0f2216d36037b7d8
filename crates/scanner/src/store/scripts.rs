//! The steps that Redis takes in one go. Each touches one key, so that they work on a Cluster, and doing one twice is
//! the same as doing it once.

/// A script, loaded once and called by its hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    /// Adds to totals once for a set of markers that are all new or all known.
    CountOnce,
    /// Adds to totals once per marker.
    RollUp,
    /// Writes a number only if it is greater.
    Raise,
    /// Writes fields of a hash only if a version is greater.
    RaiseHash,
    /// Raises one number of a hash.
    RaiseField,
    /// Raises the block fields of the head.
    RaiseHead,
    /// Adds members to a sorted set and says which were new.
    AddMembers,
    /// Replaces a wallet unless the stored one is newer.
    ReplaceWallet,
    /// Inserts a block unless its place is taken.
    InsertBlock,
    /// Replaces the leaves unless the stored ones are of a later revision.
    RaiseLeaves,
    /// Counts values of a property, a bounded number of them.
    CountValues,
    /// Appends events to their stream.
    AppendEvents,
    /// Replaces a field of a hash if it still is what it was.
    ReplaceField,
    /// A page of a sorted set after a place, in either direction.
    Page,
    /// A page of a sorted set, oldest first, with the whole last score.
    Tail,
    /// Deletes a lease of our own.
    Release,
    /// Renews a lease of our own.
    Renew,
}

impl Step {
    pub(crate) const ALL: [Self; 17] = [
        Self::CountOnce,
        Self::RollUp,
        Self::Raise,
        Self::RaiseHash,
        Self::RaiseField,
        Self::RaiseHead,
        Self::AddMembers,
        Self::ReplaceWallet,
        Self::InsertBlock,
        Self::RaiseLeaves,
        Self::CountValues,
        Self::AppendEvents,
        Self::ReplaceField,
        Self::Page,
        Self::Tail,
        Self::Release,
        Self::Renew,
    ];

    /// The text.
    pub(crate) fn code(self) -> &'static str {
        match self {
            Self::CountOnce => COUNT_ONCE,
            Self::RollUp => ROLL_UP,
            Self::Raise => RAISE,
            Self::RaiseHash => RAISE_HASH,
            Self::RaiseField => RAISE_FIELD,
            Self::RaiseHead => RAISE_HEAD,
            Self::AddMembers => ADD_MEMBERS,
            Self::ReplaceWallet => REPLACE_WALLET,
            Self::InsertBlock => INSERT_BLOCK,
            Self::RaiseLeaves => RAISE_LEAVES,
            Self::CountValues => COUNT_VALUES,
            Self::AppendEvents => APPEND_EVENTS,
            Self::ReplaceField => REPLACE_FIELD,
            Self::Page => PAGE,
            Self::Tail => TAIL,
            Self::Release => RELEASE,
            Self::Renew => RENEW,
        }
    }
}

/// ARGV: time to live in ms (0: none), then five numbers: of markers, of fields that are counted when they are new, of
/// totals, of maxima, of further fields to answer. Then these fields in this order; then what is added to each total, and
/// the number for each maximum. The last total grows by the number of fields that were new as well.
///
/// All markers known: nothing is written. None known: everything is, in one command. Some known, or a number that is too
/// long to be added here exactly, or none: answers `one` without writing, and [`Step::RollUp`] tells the items apart. Else
/// answers the totals, maxima and further fields.
const COUNT_ONCE: &str = r"
local key = KEYS[1]
local markers, firsts, totals = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local maxima, others = tonumber(ARGV[5]), tonumber(ARGV[6])
local before = markers + firsts
local fields = before + totals + maxima + others
local have = redis.call('HMGET', key, unpack(ARGV, 7, 6 + fields))
local known = 0
for i = 1, markers do
  if have[i] then known = known + 1 end
end
if known == 0 then
  local out, n = {}, 0
  for i = 1, markers do
    out[n + 1], out[n + 2] = ARGV[6 + i], ''
    n = n + 2
  end
  local new = 0
  for i = markers + 1, before do
    if not have[i] then
      new = new + 1
      out[n + 1], out[n + 2] = ARGV[6 + i], ''
      n = n + 2
    end
  end
  for i = before + 1, before + totals do
    local old, add = have[i] or '0', ARGV[6 + fields + i - before]
    if #old > 15 or #add > 15 or not string.find(old, '^%-?%d+$') then return { 'one' } end
    -- Redis writes numbers of this size digit by digit.
    have[i] = tonumber(old) + tonumber(add)
    if i == before + totals then have[i] = have[i] + new end
    out[n + 1], out[n + 2] = ARGV[6 + i], have[i]
    n = n + 2
  end
  for i = before + totals + 1, before + totals + maxima do
    local old, add = have[i], ARGV[6 + fields + i - before]
    if not old or #add > #old or (#add == #old and add > old) then
      have[i] = add
      out[n + 1], out[n + 2] = ARGV[6 + i], add
      n = n + 2
    end
  end
  redis.call('HSET', key, unpack(out))
elseif known < markers then
  return { 'one' }
end
if ARGV[1] ~= '0' then redis.call('PEXPIRE', key, ARGV[1]) end
local answer = { 'all' }
for i = before + 1, fields do answer[i - before + 1] = have[i] or '0' end
return answer
";

/// ARGV: time to live in ms (0: none), number of fields to answer, those fields, then for each item its marker, the
/// number of changes, and field and change for each: a number is added, `>n` raises, `?f` adds 1 to f if the field is
/// new. An addition that overflows undoes its item. Answers the number of new markers, then the fields.
const ROLL_UP: &str = r"
local key, answers = KEYS[1], tonumber(ARGV[2])
local i, fresh = 3 + answers, 0
while i <= #ARGV do
  local marker, last = ARGV[i], i + 1 + 2 * tonumber(ARGV[i + 1])
  if redis.call('HSETNX', key, marker, '') == 1 then
    fresh = fresh + 1
    for j = i + 2, last, 2 do
      local field, change = ARGV[j], ARGV[j + 1]
      local kind = string.sub(change, 1, 1)
      if kind == '>' then
        local new, old = string.sub(change, 2), redis.call('HGET', key, field)
        if not old or #new > #old or (#new == #old and new > old) then redis.call('HSET', key, field, new) end
      elseif kind == '?' then
        if redis.call('HSETNX', key, field, '') == 1 then
          redis.call('HINCRBY', key, string.sub(change, 2), '1')
        end
      else
        local done = redis.pcall('HINCRBY', key, field, change)
        if type(done) == 'table' and done.err then
          for k = i + 2, j - 2, 2 do
            local back = ARGV[k + 1]
            if string.sub(back, 1, 1) == '-' then back = string.sub(back, 2) else back = '-' .. back end
            redis.call('HINCRBY', key, ARGV[k], back)
          end
          redis.call('HDEL', key, marker)
          return done
        end
      end
    end
  end
  i = last + 1
end
if ARGV[1] ~= '0' then redis.call('PEXPIRE', key, ARGV[1]) end
local out = { fresh }
if answers > 0 then
  local fields = {}
  for j = 3, 2 + answers do fields[#fields + 1] = ARGV[j] end
  local values = redis.call('HMGET', key, unpack(fields))
  for j = 1, answers do out[j + 1] = values[j] or '0' end
end
return out
";

/// ARGV: number, time to live in ms (0: none).
const RAISE: &str = r"
local old, new = redis.call('GET', KEYS[1]), ARGV[1]
if old and not string.match(old, '^%d+$') then
  return redis.error_reply('CORRUPT the value is not a number')
end
if not old or #new > #old or (#new == #old and new > old) then
  redis.call('SET', KEYS[1], new)
end
if ARGV[2] ~= '0' then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 1
";

/// ARGV: name of the version's field, its value, then fields and values.
const RAISE_HASH: &str = r"
local old, new = redis.call('HGET', KEYS[1], ARGV[1]), ARGV[2]
if not old or #new > #old or (#new == #old and new > old) then
  redis.call('HSET', KEYS[1], unpack(ARGV))
  return 1
end
return 0
";

/// ARGV: field, number, updatedAt.
const RAISE_FIELD: &str = r"
local old, new = redis.call('HGET', KEYS[1], ARGV[1]), ARGV[2]
if not old or #new > #old or (#new == #old and new > old) then
  redis.call('HSET', KEYS[1], ARGV[1], new, 'updatedAt', ARGV[3])
  return 1
end
return 0
";

/// ARGV: epoch, rev, root, leaf count, updatedAt.
const RAISE_HEAD: &str = r"
local head = redis.call('HMGET', KEYS[1], 'epoch', 'snapshotRev')
local epoch, rev = tonumber(head[1]) or 0, tonumber(head[2])
local new_epoch, new_rev = tonumber(ARGV[1]), tonumber(ARGV[2])
if not rev or new_epoch > epoch or (new_epoch == epoch and new_rev > rev) then
  redis.call('HSET', KEYS[1], 'epoch', ARGV[1], 'snapshotRev', ARGV[2], 'merkleRootHex', ARGV[3],
    'merkleLeafCount', ARGV[4], 'updatedAt', ARGV[5])
  return 1
end
return 0
";

/// ARGV: number of members, the members (each once), then score and member of each. Answers the size, then 1 for each that
/// was new and 0 for the others.
const ADD_MEMBERS: &str = r"
local key, members = KEYS[1], tonumber(ARGV[1])
local known = redis.call('ZMSCORE', key, unpack(ARGV, 2, 1 + members))
redis.call('ZADD', key, 'NX', unpack(ARGV, 2 + members))
local out = { redis.call('ZCARD', key) }
for i = 1, members do out[i + 1] = known[i] and 0 or 1 end
return out
";

/// ARGV: updatedAt, JSON. Answers what became of it, and what is stored now.
const REPLACE_WALLET: &str = r#"
local old = redis.call('GET', KEYS[1])
if old then
  if old == ARGV[2] then return { 'same', old } end
  -- Ours end with the instant; another program's are read.
  local at = string.match(old, '^{.*,"updatedAt":"([%d%-:.TZ]+)"}$')
  if not at then
    local ok, wallet = pcall(cjson.decode, old)
    if not ok or type(wallet) ~= 'table' then
      return redis.error_reply('CORRUPT the wallet is not a JSON object')
    end
    at = wallet['updatedAt']
  end
  if type(at) == 'string' and #at == #ARGV[1] and at > ARGV[1] then return { 'stale', old } end
end
redis.call('SET', KEYS[1], ARGV[2])
return { 'new', ARGV[2] }
"#;

/// ARGV: score, JSON, number of blocks kept. Answers `have` and the block there, or `new` and the blocks that had to go.
const INSERT_BLOCK: &str = r"
local key = KEYS[1]
local have = redis.call('ZRANGEBYSCORE', key, ARGV[1], ARGV[1])
if have[1] then return { 'have', have[1] } end
redis.call('ZADD', key, ARGV[1], ARGV[2])
local out, over = { 'new' }, redis.call('ZCARD', key) - tonumber(ARGV[3])
if over > 0 then
  for _, gone in ipairs(redis.call('ZRANGE', key, 0, over - 1)) do out[#out + 1] = gone end
  redis.call('ZREMRANGEBYRANK', key, 0, over - 1)
end
return out
";

/// ARGV: score, JSON with `epoch` and `rev`.
const RAISE_LEAVES: &str = r#"
local old = redis.call('GET', KEYS[1])
if old then
  local ok, leaves = pcall(cjson.decode, old)
  if not ok or type(leaves) ~= 'table' then
    return redis.error_reply('CORRUPT the leaves are not a JSON object')
  end
  local score = (tonumber(leaves['epoch']) or 0) * 4294967296 + (tonumber(leaves['rev']) or 0)
  if score > tonumber(ARGV[1]) then return 0 end
end
redis.call('SET', KEYS[1], ARGV[2])
return 1
"#;

/// ARGV: most fields, name of the rest, number of values, the values (each once), then the count of each.
const COUNT_VALUES: &str = r"
local key, most, values = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[3])
local have = redis.call('HMGET', key, unpack(ARGV, 4, 3 + values))
local room = most - 1 - redis.call('HLEN', key)
local out, n, rest = {}, 0, 0
for i = 1, values do
  local old, add = have[i], ARGV[3 + values + i]
  if not old and ARGV[3 + i] ~= ARGV[2] and room <= 0 then
    rest = rest + tonumber(add)
  elseif old and #old > 15 then
    redis.call('HINCRBY', key, ARGV[3 + i], add)
  else
    if not old then room = room - 1 end
    out[n + 1], out[n + 2] = ARGV[3 + i], (tonumber(old or '0') or 0) + tonumber(add)
    n = n + 2
  end
end
if n > 0 then redis.call('HSET', key, unpack(out)) end
if rest > 0 then redis.call('HINCRBY', key, ARGV[2], rest) end
return 1
";

/// ARGV: entries kept, about; then of each event: message id, name, whose, when. Answers the id of the last entry.
const APPEND_EVENTS: &str = r"
local key, last = KEYS[1], ''
for i = 2, #ARGV, 4 do
  last = redis.call('XADD', key, '*', 'messageId', ARGV[i], 'event', ARGV[i + 1], 'distinctId', ARGV[i + 2],
    'timestamp', ARGV[i + 3])
end
redis.call('XTRIM', key, 'MAXLEN', '~', ARGV[1])
return last
";

/// ARGV: field, what it was (empty: nothing), what it becomes.
const REPLACE_FIELD: &str = r"
if (redis.call('HGET', KEYS[1], ARGV[1]) or '') ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
return 1
";

/// ARGV: `desc` or `asc`, number of members, first and last score of the list (inclusive or with `(`, or `-inf` and
/// `+inf`; `desc` lists from the last one), score of the last member seen (or empty), that member (empty: all of that score
/// were seen). Answers member, score, ….
///
/// The place after a member is found by bisection over ranks, so it need not be there any more, and the order of
/// members of one score is that of their bytes whatever the server's locale.
const PAGE: &str = r"
local key, desc, count = KEYS[1], ARGV[1] == 'desc', tonumber(ARGV[2])
local low, high, score, member = ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local function below(a, b)
  local n = math.min(#a, #b)
  for i = 1, n do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then return x < y end
  end
  return #a < #b
end
local size = redis.call('ZCARD', key)
local inside = redis.call('ZCOUNT', key, low, high)
local start
if desc then
  start = size - redis.call('ZCOUNT', key, '-inf', high)
else
  start = size - redis.call('ZCOUNT', key, low, '+inf')
end
local stop = start + inside
if score ~= '' then
  local from, to
  if desc then
    from, to = redis.call('ZCOUNT', key, '(' .. score, '+inf'), redis.call('ZCOUNT', key, score, '+inf')
  else
    from, to = redis.call('ZCOUNT', key, '-inf', '(' .. score), redis.call('ZCOUNT', key, '-inf', score)
  end
  if member == '' then
    from = to
  else
    local rank = redis.call(desc and 'ZREVRANK' or 'ZRANK', key, member)
    if rank and rank >= from and rank < to then
      from = rank + 1
    else
      while from < to do
        local middle = math.floor((from + to) / 2)
        local there = redis.call(desc and 'ZREVRANGE' or 'ZRANGE', key, middle, middle)[1]
        local after
        if desc then after = below(there, member) else after = below(member, there) end
        if after then to = middle else from = middle + 1 end
      end
    end
  end
  if from > start then start = from end
end
local last = math.min(start + count, stop) - 1
if last < start then return {} end
return redis.call(desc and 'ZREVRANGE' or 'ZRANGE', key, start, last, 'WITHSCORES')
";

/// ARGV: lowest score, number of members, most members of the last score. Answers 1 if there are members of a later
/// score, then member, score, ….
const TAIL: &str = r"
local key, count = KEYS[1], tonumber(ARGV[2])
local rows = redis.call('ZRANGEBYSCORE', key, ARGV[1], '+inf', 'WITHSCORES', 'LIMIT', 0, count)
local out, last = { 0 }, rows[#rows]
if #rows == 2 * count then
  for i = 1, #rows, 2 do
    if rows[i + 1] ~= last then out[#out + 1], out[#out + 2] = rows[i], rows[i + 1] end
  end
  local same = redis.call('ZRANGEBYSCORE', key, last, last, 'WITHSCORES', 'LIMIT', 0, tonumber(ARGV[3]))
  for i = 1, #same do out[#out + 1] = same[i] end
  if redis.call('ZCOUNT', key, '(' .. last, '+inf') > 0 then out[1] = 1 end
else
  for i = 1, #rows do out[#out + 1] = rows[i] end
end
return out
";

/// ARGV: our token.
const RELEASE: &str = r"
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
";

/// ARGV: our token, time to live in ms.
const RENEW: &str = r"
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 0
";
