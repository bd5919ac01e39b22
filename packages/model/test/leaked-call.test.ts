/** Calls that a model wrote as text: which texts are one, and which are not. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { leakedCall } from '../src/dialects/leaked-call.ts'

const offered = (name: string): boolean => name === 'read_file' || name === 'ls'
const ARGS = '{"path": "a.txt"}'

const LEAKS: Readonly<Record<string, string>> = {
  'Hermes, Qwen': `<tool_call>\n{"name": "read_file", "arguments": ${ARGS}}\n</tool_call>`,
  'two of them': `<tool_call>\n{"name": "ls", "arguments": {}}\n</tool_call>\n<tool_call>\n{"name": "read_file", "arguments": ${ARGS}}\n</tool_call>`,
  'without the opening tag': `{"name": "read_file", "arguments": ${ARGS}}\n</tool_call>`,
  'Qwen3-Coder': '<tool_call>\n<function=read_file>\n<parameter=path>\na.txt\n</parameter>\n</function>\n</tool_call>',
  GLM: '<tool_call>read_file\n<arg_key>path</arg_key>\n<arg_value>a.txt</arg_value>\n</tool_call>',
  'bare JSON': `{"name": "read_file", "arguments": ${ARGS}}`,
  'bare JSON, twice': `{"name": "ls", "arguments": {}}\n{"name": "read_file", "arguments": ${ARGS}}`,
  'Llama 3': `<|python_tag|>{"name": "read_file", "parameters": ${ARGS}}`,
  'Llama 3 without its tag': `{"type": "function", "name": "read_file", "parameters": ${ARGS}}`,
  'Llama 4': '<|python_start|>[read_file(path="a.txt")]<|python_end|>',
  'a list of calls': '[read_file(path="a.txt"), ls()]',
  Mistral: `[TOOL_CALLS][{"name": "read_file", "arguments": ${ARGS}}]`,
  'newer Mistral': `[TOOL_CALLS]read_file[ARGS]${ARGS}`,
  DeepSeek: `<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>read_file\n\`\`\`json\n${ARGS}\n\`\`\`<｜tool▁call▁end｜><｜tool▁calls▁end｜>`,
  'newer DeepSeek': `<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>read_file<｜tool▁sep｜>${ARGS}<｜tool▁call▁end｜><｜tool▁calls▁end｜>`,
  DSML: '<｜DSML｜function_calls>\n<｜DSML｜invoke name="read_file">\n<｜DSML｜parameter name="path" string="true">a.txt</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>',
  'gpt-oss': `<|channel|>commentary to=functions.read_file <|constrain|>json<|message|>${ARGS}<|call|>`,
  'gpt-oss without its tokens': `commentary to=functions.read_file json${ARGS}`,
  Kimi: `<|tool_calls_section_begin|><|tool_call_begin|>functions.read_file:0<|tool_call_argument_begin|>${ARGS}<|tool_call_end|><|tool_calls_section_end|>`,
  MiniMax:
    '<minimax:tool_call>\n<invoke name="read_file">\n<parameter name="path">a.txt</parameter>\n</invoke>\n</minimax:tool_call>',
  LFM2: "<|tool_call_start|>[read_file(path='a.txt')]<|tool_call_end|>",
  Granite: `<|tool_call|>[{"name": "read_file", "arguments": ${ARGS}}]`,
  Phi: `functools[{"name": "read_file", "arguments": ${ARGS}}]`,
  'Anthropic-like':
    '<function_calls>\n<invoke name="read_file">\n<parameter name="path">a.txt</parameter>\n</invoke>\n</function_calls>',
}

for (const [who, text] of Object.entries(LEAKS))
  test(`a call in the form of ${who} is one, also after a sentence if it has an envelope`, () => {
    assert.match(leakedCall(text, offered)?.name ?? '', /^(?:read_file|ls)$/)
    assert.equal(leakedCall(`\n ${text}\n`, offered)?.name, leakedCall(text, offered)?.name)
    const isBare = /^[[{](?!TOOL)/.test(text) || text.endsWith('}\n</tool_call>')
    if (!isBare) assert.notEqual(leakedCall(`I will read the file now.\n\n${text}`, offered), undefined)
    assert.equal(
      leakedCall(text, (name) => name === 'other'),
      undefined,
      'a tool that was not offered',
    )
    assert.equal(leakedCall(`${text}\nThat is how a call looks.`, offered), undefined, 'more follows')
    assert.equal(leakedCall(`It looks like this:\n\`\`\`\n${text}\n\`\`\``, offered), undefined, 'in a code fence')
    assert.equal(leakedCall(`\`\`\`\n${text}`, offered), undefined, 'in a fence that stays open')
    assert.equal(leakedCall(`The model wrote "${text}"`, offered), undefined, 'in quotes')
    assert.equal(leakedCall(text.slice(0, -2), offered), undefined, 'cut')
  })

const OTHERS: readonly string[] = [
  '',
  'Hello.',
  '{"name": "read_file", "description": "reads"}', // structured output
  '{"name": "read_file", "arguments": {}, "confidence": 1}',
  '{"name": "read_file", "arguments": "a.txt"}',
  '{"name": "read_file"}',
  '[1, 2, 3]',
  '[]',
  '{}',
  '<tool_call></tool_call>',
  '<tool_call>{"name": "read_file", "arguments": [1]}</tool_call>',
  'Use read_file(path="a.txt") for that.',
  '[see read_file()]',
]

test('no other text is one', () => {
  for (const text of OTHERS) assert.equal(leakedCall(text, offered), undefined, text)
})

test('a text made to be slow is read in time', () => {
  for (const unit of [
    '<tool_call>',
    '{"name":"ls","arguments":{}}\n',
    '<parameter name="a">',
    '[TOOL_CALLS]ls[ARGS]{',
    'a(',
    ' ',
    'ls(a=',
  ]) {
    const text = `<tool_call>${unit.repeat(32_768 / unit.length)}</tool_call>`
    for (const one of [
      text,
      unit.repeat(32_768 / unit.length),
      `[${unit.repeat(5_000)}]`,
      `<function_calls><invoke name="ls">${unit.repeat(1_500)}</function_calls>`,
    ])
      leakedCall(one, offered)
  }
})
