-- SPDX-License-Identifier: BSD-2-Clause
-- Wireshark and tshark: the shim and the block of compressed TCP and UDP payloads (docs/wire-format.md, 2 and 3).
--
--   tshark -X lua_script:examples/wireshark/inceptionn.lua -r wire-host0.pcap -Y inceptionn
--   wireshark -X lua_script:examples/wireshark/inceptionn.lua wire-host0.pcap
--
-- It runs behind all other dissectors, so it needs no port and no setting. On the wire a compressed segment is
-- shorter than its sequence numbers say: -o tcp.analyze_sequence_numbers:FALSE silences the complaints.

local inceptionn = Proto("inceptionn", "INCEPTIONN compressed floats")

local fields = {
  magic = ProtoField.uint16("inceptionn.magic", "Magic", base.HEX),
  version = ProtoField.uint8("inceptionn.version", "Version"),
  b = ProtoField.uint8("inceptionn.b", "B (exponent of the 8-bit class)"),
  length = ProtoField.uint16("inceptionn.length", "Original payload bytes"),
  lanes = ProtoField.uint16("inceptionn.lanes", "Values"),
  ratio = ProtoField.float("inceptionn.ratio", "Ratio of the payload"),
  literal = ProtoField.bool("inceptionn.literal", "Mode literal (B = 127)"),
  zero = ProtoField.uint16("inceptionn.lanes.zero", "Tag 00, dropped"),
  bits8 = ProtoField.uint16("inceptionn.lanes.bits8", "Tag 01, 8 bits"),
  bits16 = ProtoField.uint16("inceptionn.lanes.bits16", "Tag 10, 16 bits"),
  raw = ProtoField.uint16("inceptionn.lanes.raw", "Tag 11, 32 bits"),
  malformed = ProtoField.bool("inceptionn.malformed", "Malformed block"),
  tags = ProtoField.bytes("inceptionn.tags", "Tag plane"),
  data = ProtoField.bytes("inceptionn.data", "Data"),
}
inceptionn.fields = fields

local malformed_block = ProtoExpert.new(
  "inceptionn.malformed.expert", "The block does not hold what its tags say", expert.group.MALFORMED,
  expert.severity.ERROR)
inceptionn.experts = { malformed_block }

local payloads = { Field.new("tcp.payload"), Field.new("udp.payload") }

local SHIM, LANES, BYTES = 8, 8, { [0] = 0, 1, 2, 4 }

-- Whether a payload begins with a valid shim: steps 17 to 20 of the receive engine, with its largest payload.
local function has_shim(payload)
  if payload:len() < SHIM or payload(0, 2):uint() ~= 0x494e or payload(2, 1):uint() ~= 1 then return false end
  local length = payload(4, 2):uint()
  return payload(6, 2):uint() == 0 and length % 4 == 0 and length > payload:len() and length <= 9216
end

-- Values by tag, and whether the tags fill the block.
local function count(payload, lanes)
  local groups = math.ceil(lanes / LANES)
  local at, size, counts, sound = SHIM, 2 * groups, { [0] = 0, 0, 0, 0 }, true
  if payload:len() < SHIM + size then return counts, false end
  for group = 0, groups - 1 do
    local word = payload(at, 2):le_uint()
    for lane = 0, LANES - 1 do
      local tag = math.floor(word / 4 ^ lane) % 4
      if group * LANES + lane < lanes then
        counts[tag] = counts[tag] + 1
        size = size + BYTES[tag]
      elseif tag ~= 0 then
        sound = false
      end
    end
    at = at + 2
  end
  return counts, sound and payload:len() == SHIM + size
end

function inceptionn.dissector(buffer, pinfo, tree)
  for _, field in ipairs(payloads) do
    local found = field()
    local payload = found and found.range
    if payload and has_shim(payload) then
      local length = payload(4, 2):uint()
      local lanes = length / 4
      local counts, sound = count(payload, lanes)
      local ratio = length / payload:len()
      local title = string.format("INCEPTIONN: %d values in %d bytes (%.2f)", lanes, payload:len(), ratio)
      local branch = tree:add(inceptionn, payload, title)
      branch:add(fields.magic, payload(0, 2))
      branch:add(fields.version, payload(2, 1))
      branch:add(fields.b, payload(3, 1))
      branch:add(fields.literal, payload(3, 1), payload(3, 1):uint() == 127):set_generated()
      branch:add(fields.length, payload(4, 2))
      branch:add(fields.lanes, payload(4, 2), lanes):set_generated()
      branch:add(fields.ratio, payload, ratio):set_generated()
      branch:add(fields.zero, payload, counts[0]):set_generated()
      branch:add(fields.bits8, payload, counts[1]):set_generated()
      branch:add(fields.bits16, payload, counts[2]):set_generated()
      branch:add(fields.raw, payload, counts[3]):set_generated()
      branch:add(fields.malformed, payload, not sound):set_generated()
      local tags = math.min(2 * math.ceil(lanes / LANES), payload:len() - SHIM)
      if tags > 0 then branch:add(fields.tags, payload(SHIM, tags)) end
      if payload:len() > SHIM + tags then branch:add(fields.data, payload(SHIM + tags)) end
      if not sound then branch:add_proto_expert_info(malformed_block) end
      pinfo.cols.info:append(string.format(" [%d floats, %.2f]", lanes, ratio))
    end
  end
end

register_postdissector(inceptionn)
