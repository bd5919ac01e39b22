import assert from 'node:assert/strict'
import { test } from 'node:test'
import { shownCommand } from '../src/commands/config/config.ts'
import { filesNamedIn } from '../src/commands/doctor/model-server.ts'

const named = (command: string): readonly string[] =>
  filesNamedIn(command.split(' ')).map(({ path, flag }) => (flag === undefined ? path : `${flag} ${path}`))

test('the files that a command reads are found; outputs, names in a registry and ports are left out', () => {
  assert.deepEqual(named('llama-server -m /models/q.gguf --mmproj=vision.gguf --log-file /tmp/x.log --port {port}'), [
    '-m /models/q.gguf',
    '--mmproj vision.gguf',
  ])
  assert.deepEqual(named('vllm serve Qwen/Qwen3-8B --port {port}'), [])
  assert.deepEqual(named('vllm serve /models/qwen --chat-template ./t.jinja --port={port}'), [
    '/models/qwen',
    '--chat-template ./t.jinja',
  ])
  assert.deepEqual(named('python3 -m vllm.entrypoints.openai.api_server --model Qwen/Qwen3-8B --port {port}'), [])
  assert.deepEqual(named('node server.mjs --model ~/q.gguf --hf-repo a/b.gguf http://127.0.0.1:{port}/x.json'), [
    'server.mjs',
    '--model ~/q.gguf',
  ])
  assert.deepEqual(named('llama-server --chat-template chatml --api-key-file keys.txt --port {port}'), [])
})

test('a command is shown without its keys', () => {
  assert.deepEqual(
    shownCommand([
      's',
      '--api-key',
      'hunter2',
      '--token=hunter2',
      '--api-key-file',
      '/k',
      '--max-tokens',
      '9',
      '{port}',
    ]),
    ['s', '--api-key', '…', '--token=…', '--api-key-file', '/k', '--max-tokens', '9', '{port}'],
  )
})
