-- SPDX-License-Identifier: BSD-2-Clause
-- Wireshark and tshark: the shim and the block of compressed TCP and UDP payloads (docs/wire-format.md).
--
--   tshark -X lua_script:examples/wireshark/inceptionn.lua -r wire-host0.pcap -Y inceptionn
--   wireshark -X lua_script:examples/wireshark/inceptionn.lua wire-host0.pcap
--
-- It runs after all other dissectors, so it needs no port and no setting. On the wire a compressed segment is
-- shorter than its sequence numbers say: -o tcp.analyze_sequence_numbers:FALSE silences the complaints.

local inceptionn = Proto("inceptionn", "INCEPTIONN compressed floats")

local CODECS = { [1] = "paper", [2] = "planes" }
local SHIM, TAGGED_LANES = 8, 8
local TAG_BYTES = { [0] = 0, 1, 2, 4 }
local RAW_CODE = 15
-- The types of lanes: bytes of a lane, lanes of a group, offset of E0 in the shim, bytes of a group by its code.
local FP32 = {
  name = "fp32", bytes = 4, group = 8, offset = 0,
  code_bytes = { [0] = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 32 },
}
local BF16 = {
  name = "bf16", bytes = 2, group = 16, offset = 128,
  code_bytes = { [0] = 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 32 },
}

local fields = {
  magic = ProtoField.uint16("inceptionn.magic", "Magic", base.HEX),
  version = ProtoField.uint8("inceptionn.version", "Version", base.DEC, CODECS),
  b = ProtoField.uint8("inceptionn.b", "B (exponent of the 8-bit class)"),
  e0 = ProtoField.uint8("inceptionn.e0", "E0 (exponent of the error bound)"),
  bound = ProtoField.string("inceptionn.bound", "Error bound"),
  length = ProtoField.uint16("inceptionn.length", "Original payload bytes"),
  lanes = ProtoField.uint16("inceptionn.lanes", "Values"),
  type = ProtoField.string("inceptionn.type", "Type of the values"),
  ratio = ProtoField.float("inceptionn.ratio", "Ratio of the payload"),
  literal = ProtoField.bool("inceptionn.literal", "Mode literal (B = 127)"),
  malformed = ProtoField.bool("inceptionn.malformed", "Malformed block"),
  tags = ProtoField.bytes("inceptionn.tags", "Tag table"),
  codes = ProtoField.bytes("inceptionn.codes", "Code table"),
  data = ProtoField.bytes("inceptionn.data", "Data"),
}
-- Values by tag, and groups by code, in the order of tags and codes.
local tag_fields = {
  [0] = ProtoField.uint16("inceptionn.lanes.zero", "Tag 00, dropped"),
  ProtoField.uint16("inceptionn.lanes.bits8", "Tag 01, 8 bits"),
  ProtoField.uint16("inceptionn.lanes.bits16", "Tag 10, 16 bits"),
  ProtoField.uint16("inceptionn.lanes.raw", "Tag 11, 32 bits"),
}
local code_fields = {}
for code = 0, RAW_CODE do
  local text = string.format("Groups with code %d", code)
  code_fields[code] = ProtoField.uint16("inceptionn.groups.code" .. code, text)
end
local all = {}
for _, list in ipairs({ fields, tag_fields, code_fields }) do
  for _, field in pairs(list) do all[#all + 1] = field end
end
inceptionn.fields = all

local malformed_block = ProtoExpert.new(
  "inceptionn.malformed.expert", "The block does not hold what its tags or codes say", expert.group.MALFORMED,
  expert.severity.ERROR)
inceptionn.experts = { malformed_block }

local payloads = { Field.new("tcp.payload"), Field.new("udp.payload") }

-- The type of the lanes that a shim names; nil if the number is none.
local function lane_type(version, number)
  if version == 1 then return FP32 end
  local type = number >= BF16.offset and BF16 or FP32
  local e0 = number - type.offset
  return version == 2 and e0 >= 113 and e0 <= 126 and type or nil
end

-- Whether a payload begins with a valid shim: steps 17 to 20 of the receive engine, with its largest payload.
local function has_shim(payload)
  if payload:len() < SHIM or payload(0, 2):uint() ~= 0x494e then return false end
  if not lane_type(payload(2, 1):uint(), payload(3, 1):uint()) then return false end
  local length = payload(4, 2):uint()
  return payload(6, 2):uint() == 0 and length % 4 == 0 and length > payload:len() and length <= 9216
end

-- A block of the paper's codec: bytes of its tag table, values by tag, and whether the tags fill the block.
local function count_tags(payload, lanes)
  local groups = math.ceil(lanes / TAGGED_LANES)
  local table_bytes, counts, sound = 2 * groups, { [0] = 0, 0, 0, 0 }, true
  local size = SHIM + table_bytes
  if payload:len() < size then return table_bytes, counts, false end
  for group = 0, groups - 1 do
    local word = payload(SHIM + 2 * group, 2):le_uint()
    for lane = 0, TAGGED_LANES - 1 do
      local tag = math.floor(word / 4 ^ lane) % 4
      if group * TAGGED_LANES + lane < lanes then
        counts[tag] = counts[tag] + 1
        size = size + TAG_BYTES[tag]
      elseif tag ~= 0 then
        sound = false
      end
    end
  end
  return table_bytes, counts, sound and payload:len() == size
end

-- Whether the absent lanes of a last group, at byte `at`, are zero; it has `used` lanes of `type`.
local function absent_are_zero(payload, at, code, used, type)
  local word_bytes = type.group / 8 -- of a plane
  for i = 0, type.code_bytes[code] - 1 do
    local byte = payload(at + i, 1):uint()
    local present = used - 8 * (i % word_bytes) -- lanes with a bit in this byte
    if code == RAW_CODE and i >= type.bytes * used and byte ~= 0 then return false end
    if code ~= RAW_CODE and byte >= 2 ^ math.max(present, 0) then return false end
  end
  return true
end

-- A block of the planes codec: bytes of its code table, groups by code, and whether the block is sound.
local function count_codes(payload, lanes, type)
  local groups = math.ceil(lanes / type.group)
  local table_bytes, counts, sound = 2 * math.ceil(groups / 4), {}, true
  for code = 0, RAW_CODE do counts[code] = 0 end
  local size, last, code = SHIM + table_bytes, 0, 0
  if payload:len() < size then return table_bytes, counts, false end
  for group = 0, 2 * table_bytes - 1 do
    local byte = payload(SHIM + math.floor(group / 2), 1):uint()
    local nibble = group % 2 == 0 and byte % 16 or math.floor(byte / 16)
    if group < groups then
      last, code = size, nibble
      counts[code] = counts[code] + 1
      size = size + type.code_bytes[code]
    elseif nibble ~= 0 then
      sound = false
    end
  end
  sound = sound and payload:len() == size
  return table_bytes, counts, sound and absent_are_zero(payload, last, code, lanes - type.group * (groups - 1), type)
end

local function show_paper(branch, payload, lanes)
  branch:add(fields.b, payload(3, 1))
  branch:add(fields.literal, payload(3, 1), payload(3, 1):uint() == 127):set_generated()
  return fields.tags, tag_fields, count_tags(payload, lanes)
end

local function show_planes(branch, payload, lanes, type)
  local e0 = payload(3, 1):uint() - type.offset
  branch:add(fields.e0, payload(3, 1), e0)
  branch:add(fields.bound, payload(3, 1), string.format("2^-%d", 127 - e0)):set_generated()
  return fields.codes, code_fields, count_codes(payload, lanes, type)
end

function inceptionn.dissector(buffer, pinfo, tree)
  for _, field in ipairs(payloads) do
    local found = field()
    local payload = found and found.range
    if payload and has_shim(payload) then
      local length = payload(4, 2):uint()
      local type = lane_type(payload(2, 1):uint(), payload(3, 1):uint())
      local lanes = length / type.bytes
      local ratio = length / payload:len()
      local codec = CODECS[payload(2, 1):uint()]
      local title = string.format(
        "INCEPTIONN: %d %s values in %d bytes (%.2f, %s)", lanes, type.name, payload:len(), ratio, codec)
      local branch = tree:add(inceptionn, payload, title)
      branch:add(fields.magic, payload(0, 2))
      branch:add(fields.version, payload(2, 1))
      local show = codec == "paper" and show_paper or show_planes
      local table_field, class_fields, table_bytes, counts, sound = show(branch, payload, lanes, type)
      branch:add(fields.length, payload(4, 2))
      branch:add(fields.lanes, payload(4, 2), lanes):set_generated()
      branch:add(fields.type, payload(2, 2), type.name):set_generated()
      branch:add(fields.ratio, payload, ratio):set_generated()
      for class = 0, #counts do branch:add(class_fields[class], payload, counts[class]):set_generated() end
      branch:add(fields.malformed, payload, not sound):set_generated()
      table_bytes = math.min(table_bytes, payload:len() - SHIM)
      if table_bytes > 0 then branch:add(table_field, payload(SHIM, table_bytes)) end
      if payload:len() > SHIM + table_bytes then branch:add(fields.data, payload(SHIM + table_bytes)) end
      if not sound then branch:add_proto_expert_info(malformed_block) end
      pinfo.cols.info:append(string.format(" [%d %s, %.2f, %s]", lanes, type.name, ratio, codec))
    end
  end
end

register_postdissector(inceptionn)
