-- The record of a page: how it is written, and what an event makes of it. Nothing here asks the server for anything.
--
-- A record begins with its head, which every visit rewrites: state, since when (ms), last visit (ms, 0: none), interval (ms), status,
-- signature, changes, misses. Then come the number of its events, first (when it was found, ms), version, priority, host (with its length),
-- payload, and at the end the trail: 5 bytes for each event, its kind and the second. So a visit puts a head before and an event behind what it
-- copies unread.

local Page = {}

do
  local FOUND, SCHEDULED, FINISHED, FAILED, GONE = 1, 2, 3, 4, 5
  local TRAIL = 8 -- events kept
  local SHRINK, GROW = 0.5, 1.5
  -- Events of the trail. Those of visits say how they ended.
  local EVENT = {found = 1, due = 2, sighted = 3, read = 4, changed = 5, unchanged = 6, missing = 7, failed = 8, replaced = 9, dropped = 10}

  local FORM = '>BI6I6I5I2c8I2BBI6I4i4I2c0'
  local COUNT, REST = 32, 33 -- where the number of events stands, and what a visit copies
  local NUMBERS = {[0] = '\0', '\1', '\2', '\3', '\4', '\5', '\6', '\7', '\8'}
  local NO_SIGNATURE = '\0\0\0\0\0\0\0\0'
  -- What stands behind `since` in the record of a page that was never visited, up to the number of its events, and the numbers after its first visit.
  local NEVER_VISITED, FRESH = NO_SIGNATURE .. NO_SIGNATURE .. NO_SIGNATURE, {}
  for events = 1, TRAIL - 1 do FRESH[NEVER_VISITED .. NUMBERS[events]] = '\0\0\0' .. NUMBERS[events + 1] end

  Page.FOUND, Page.SCHEDULED, Page.FINISHED, Page.FAILED, Page.GONE = FOUND, SCHEDULED, FINISHED, FAILED, GONE
  Page.NO_SIGNATURE = NO_SIGNATURE -- of a page whose worker reports none

  function Page.read(raw)
    local state, since, last, interval, status, signature, changes, misses, events, first, version, priority, host, rest =
      struct.unpack(FORM, raw)
    local trail = #raw - 5 * events
    return {
      state = state, since = since, last = last, interval = interval, status = status, signature = signature, changes = changes,
      misses = misses, first = first, version = version, priority = priority, host = host, payload = sub(raw, rest, trail),
      trail = sub(raw, trail + 1),
    }
  end

  function Page.write(p)
    return struct.pack(FORM, p.state, p.since, p.last, p.interval, p.status, p.signature, min(p.changes, 65535), min(p.misses, 255),
      #p.trail / 5, p.first, p.version, p.priority, #p.host, p.host) .. p.payload .. p.trail
  end

  -- Made once per call for each kind: many pages share the moment.
  local function event(S, kind)
    local events = S.page_events
    if not events then
      events = {}
      S.page_events = events
    end
    local text = events[kind]
    if not text then
      text = struct.pack('>BI4', kind, floor(S.now / 1000))
      events[kind] = text
    end
    return text
  end

  -- A status as it is stored, and whether a page with it may have been read.
  function Page.status(status)
    return struct.pack('>I2', status), status ~= 304 and status ~= 404 and status ~= 410
  end

  -- State, since, last visit and interval of a page that is visited now.
  local function visit_head(S, state, interval)
    local heads, key = S.page_heads, 8 * interval + state
    if not heads then
      heads = {}
      S.page_heads = heads
    end
    local text = heads[key]
    if not text then
      text = struct.pack('>BI6I6I5', state, S.now, S.now, interval)
      heads[key] = text
    end
    return text
  end

  -- The record with one event more, and another head, which comes in parts.
  local function with_event(raw, events, text, a, b, c, d)
    if events < TRAIL then return a .. b .. c .. d .. NUMBERS[events + 1] .. sub(raw, REST) .. text end
    return a .. b .. c .. d .. NUMBERS[TRAIL] .. sub(raw, REST, -5 * TRAIL - 1) .. sub(raw, 5 - 5 * TRAIL) .. text
  end

  -- The records of new pages of one place in the queue begin with `stem` and end with `found`; the payload stands between.
  function Page.stem(S, state, version, priority, host)
    return struct.pack(FORM, state, S.now, 0, 0, 0, NO_SIGNATURE, 0, 0, 1, S.now, version, priority, #host, host)
  end

  function Page.found(S)
    return event(S, EVENT.found)
  end

  function Page.new(S, state, version, priority, host, payload)
    return Page.stem(S, state, version, priority, host) .. payload .. Page.found(S)
  end

  -- The page comes into another state without a visit. `kind` names the event.
  function Page.turn(S, raw, state, kind)
    return with_event(raw, byte(raw, COUNT), event(S, EVENT[kind]), struct.pack('>BI6', state, S.now), sub(raw, 8, COUNT - 1), '', '')
  end

  -- The same for a page that is queued again, by a link or because it is due: the version of the seeds is the newest of both.
  function Page.again(S, raw, state, kind, version)
    local old = struct.unpack('>I4', raw, REST + 6)
    raw = Page.turn(S, raw, state, kind)
    if version <= old then return raw end
    return sub(raw, 1, REST + 5) .. struct.pack('>I4', version) .. sub(raw, REST + 10)
  end

  -- A link leads to a known page: it is queued as the link says.
  function Page.sighted(S, raw, state, version, priority, host, payload)
    local p = Page.read(Page.turn(S, raw, state, 'sighted'))
    p.version, p.priority, p.host, p.payload = version, priority, host, payload
    return Page.write(p)
  end

  -- The priority of a page, its host and payload.
  function Page.request(raw)
    local priority, host, rest = struct.unpack('>i4I2c0', raw, REST + 10)
    return priority, host, sub(raw, rest, #raw - 5 * byte(raw, COUNT))
  end

  -- When a page that a link leads to again is wanted: ms, 0 for now, nil for not at all or not before it is due anyway. `raw` is neither
  -- queued nor waiting. Also whether it still has an interval of visits that have ended since.
  function Page.wanted(S, rules, raw, version)
    local state = byte(raw)
    local after = state == FINISHED and rules.finished or state == FAILED and rules.failed or state == GONE and rules.gone
    if rules.newer and state ~= FAILED and version > struct.unpack('>I4', raw, REST + 6) then return 0 end
    if not after then return nil end
    local _, since, _, interval = struct.unpack('>BI6I6I5', raw)
    if since + after <= S.now then return 0 end
    if rules.revisit then return (interval == 0 or after < interval) and since + after or nil end
    return since + after, interval > 0
  end

  -- Whether a page that is not visited again is older than its record may be: it is new, though no call has removed it yet.
  function Page.is_outdated(S, rules, raw)
    if rules.max_age == 0 then return false end
    local _, since, _, interval = struct.unpack('>BI6I6I5', raw)
    return interval == 0 and since + rules.max_age <= S.now
  end

  -- The first visit of a page that is read, as most are: what its record is put together from, in this order, without a look at it. It begins with
  -- `head`; then come status and signature; then the numbers (`fresh` has them, by the 25 bytes that they and others were; nil: it was
  -- visited before), then what follows them, and `event`. `wait`: ms until the next visit, or nil.
  function Page.first_visit(S, rules)
    local revisit = rules.revisit
    local wait = revisit and (revisit.adaptive and min(max(revisit.every, revisit.low), revisit.high) or revisit.every)
    return FRESH, visit_head(S, FINISHED, wait or 0), event(S, EVENT.read), wait
  end

  -- The page was visited. `code`: its status as it is stored. Answers its record, its state, and when it is due (ms; nil: it is not visited again).
  function Page.visited(S, rules, raw, ending, status, code, signature)
    local interval, was, changes, misses, events = struct.unpack('>I5xxc8I2BB', raw, 14)
    local revisit, first = rules.revisit, was == NO_SIGNATURE
    -- `kept`: the signature stays as it was.
    local state, kind, changed, kept = FINISHED, EVENT.read, false, true
    if ending == 'failed' then
      state, kind = FAILED, EVENT.failed
      -- Later each time, and never given up: its server may be down.
      if revisit then interval = min(2 * max(interval, revisit.every), max(revisit.high, revisit.every)) end
    elseif (status == 404 or status == 410) and signature == NO_SIGNATURE then
      misses, kind = min(misses + 1, 255), EVENT.missing
      if not revisit or misses >= revisit.gone then
        state = GONE
      else
        interval = min(max(interval > 0 and interval or revisit.every, revisit.low), revisit.high)
      end
    else
      misses, kept = 0, status == 304 or signature == NO_SIGNATURE
      changed = not (kept or first or signature == was)
      if changed then
        changes, kind = min(changes + 1, 65535), EVENT.changed
      elseif status == 304 then
        kind = EVENT.unchanged
      end
      if ending == 'replaced' then kind = EVENT.replaced end
      if revisit and not revisit.adaptive then
        interval = revisit.every
      elseif revisit and (first and not kept or interval == 0) then
        interval = min(max(revisit.every, revisit.low), revisit.high)
      elseif revisit then
        interval = floor(min(max(interval * (changed and SHRINK or GROW), revisit.low), revisit.high) + 0.5)
      end
    end
    if not revisit or state == GONE then interval = 0 end
    local numbers = changes + misses == 0 and '\0\0\0' or struct.pack('>I2B', changes, misses)
    return with_event(raw, events, event(S, kind), visit_head(S, state, interval), code, kept and was or signature, numbers), state,
      interval > 0 and S.now + interval or nil
  end
end
