import assert from 'node:assert/strict'
import { test } from 'node:test'
import { diagnose, SIGNATURES } from '../src/index.ts'
import { headline } from '../src/internal.ts'
import { explainingLine } from '../src/explaining-line.ts'

test('message and advice do not repeat each other, whichever says more', () => {
  assert.equal(headline('the port is taken', 'The port is taken. Use another.'), 'The port is taken. Use another.')
  assert.equal(
    headline('not enough system memory for the model', 'Not enough system memory. Use a smaller model.'),
    'not enough system memory for the model. Use a smaller model.',
  )
  assert.equal(headline('it crashed', 'Update the driver.'), 'it crashed. Update the driver.')
  assert.equal(headline('it crashed', ''), 'it crashed')
  assert.equal(headline('it crashed early', 'It crashed.'), 'it crashed early')
})

test('no message of a signature appears twice in one sentence', () => {
  const plain = (text: string): string => text.toLowerCase().replaceAll(/[^a-z0-9 ]/g, '')
  const twice = SIGNATURES.filter(({ message, advice }) => {
    const parts = headline(message, advice)
      .split(/(?<=[.;])\s/)
      .map(plain)
    return parts.some((part, i) => parts.some((other, j) => i !== j && part !== '' && other.startsWith(part)))
  })
  assert.deepEqual(
    twice.map(({ id }) => id),
    [],
  )
})

test('no advice sends people to another line', () => {
  const pointing = SIGNATURES.filter(({ message, advice }) =>
    /\babove\b|\bbelow\b|\bsee\b/i.test(`${message} ${advice}`),
  )
  assert.deepEqual(
    pointing.map(({ id }) => id),
    [],
  )
})

const MISSING = [
  "gguf_init_from_file: failed to open GGUF file 'nope.gguf' (No such file or directory)",
  'llama_model_load: error loading model: llama_model_loader: failed to load model from nope.gguf',
  'llama_model_load_from_file_impl: failed to load model',
  "common_init_from_params: failed to load model 'nope.gguf', try reducing --n-gpu-layers if you're running out of VRAM",
  "srv    load_model: failed to load model, 'nope.gguf'",
  'srv    operator(): operator(): cleaning up before exit...',
  'main: exiting due to model loading error',
]

for (const [what, lines, expected] of [
  ['the missing file', MISSING, MISSING[0]],
  ['the unknown flag', ['build: 6000 (abc)', 'error: invalid argument: --foo'], 'error: invalid argument: --foo'],
  [
    'the unknown flag of a Python server',
    ['usage: vllm serve [-h] [--port PORT]', 'vllm serve: error: unrecognized arguments: --foo'],
    'vllm serve: error: unrecognized arguments: --foo',
  ],
  [
    'the flag with a bad value, before the whole help text',
    ['error while handling argument "-c": stoi', '', 'usage:', '-c, --ctx-size N   size of the prompt context'],
    'error while handling argument "-c": stoi',
  ],
  [
    'the limit',
    [
      'INFO 09-28 loading',
      'ValueError: The context of 131072 tokens exceeds the limit of 32768',
      'See the error above',
    ],
    'ValueError: The context of 131072 tokens exceeds the limit of 32768',
  ],
  ['nothing that was only a warning', ['[WARNING] tokenizer file not found, using the default', 'bye'], undefined],
  ['nothing that only follows from it', ['main: exiting due to model loading error'], undefined],
] as const) {
  test(`the line that explains a failed start is ${what}`, () => {
    assert.equal(explainingLine(lines), expected)
  })
}

test('a known cause names the limit, the name or the port in its line', () => {
  for (const [line, expected] of [
    ["main: couldn't bind HTTP server socket, hostname: 127.0.0.1, port: 8080", /\(port 8080\)/],
    ['Error: listen EADDRINUSE: address already in use :::39123', /\(port 39123\)/],
    ['Error: listen tcp 127.0.0.1:11434: bind: address already in use', /\(port 11434\)/],
    [
      "ERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', 44319): [errno 98] x",
      /\(port 44319\)/,
    ],
    [
      'alloc_buffer: allocating 9663.68 MiB on device 0: cudaMalloc failed: out of memory',
      /\(9663\.68 MiB on device 0\)/,
    ],
    ["error loading model architecture: unknown model architecture: 'qwen9'", /\('qwen9'\)/],
    [
      "ValueError: The model's max seq len (32768) is larger than the maximum number of tokens that can be stored in KV cache (7344).",
      /\(32768 tokens, room for 7344\)/,
    ],
  ] as const) {
    const [found] = diagnose(line)
    assert.match(headline(found?.message ?? '', found?.advice ?? ''), expected, line)
  }
})
