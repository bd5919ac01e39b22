/** The routing rule: what each provider's path is, and its address at an upstream. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { RelayApiName } from '@breakfall/model'
import { addressOf } from '@breakfall/model/internal'
import { asksModel, errorApi, isLikeModelRoute, isServed, modelRoute, normalised, placeOf } from '../src/paths.ts'

const AZURE = 'https://r.openai.azure.com'
const VERTEX = '/v1/projects/p/locations/l/publishers'

/** Path, upstream, the address there, and the API in which it is healed and whether its path says that it streams. */
const HEALED: readonly (readonly [
  path: string,
  upstream: string,
  there: string,
  api: RelayApiName,
  stream?: boolean | undefined,
])[] = [
  ['/v1/chat/completions', 'http://h/v1', 'http://h/v1/chat/completions', 'openai-chat'],
  [
    '/v1/chat/completions',
    'https://api.z.ai/api/coding/paas/v4',
    'https://api.z.ai/api/coding/paas/v4/chat/completions',
    'openai-chat',
  ],
  ['/v1/chat/completions', 'http://h', 'http://h/chat/completions', 'openai-chat'],
  [
    '/v1/responses',
    'https://chatgpt.com/backend-api/codex',
    'https://chatgpt.com/backend-api/codex/responses',
    'openai-responses',
  ],
  ['/v1/messages', 'https://api.anthropic.com/v1', 'https://api.anthropic.com/v1/messages', 'anthropic-messages'],
  // Azure, both forms
  ['/openai/v1/chat/completions', `${AZURE}/openai/v1`, `${AZURE}/openai/v1/chat/completions`, 'openai-chat'],
  ['/openai/v1/responses', AZURE, `${AZURE}/openai/v1/responses`, 'openai-responses'],
  ['/openai/v1/responses', 'http://h/v1', 'http://h/v1/responses', 'openai-responses'],
  ['/openai/responses', `${AZURE}/openai`, `${AZURE}/openai/responses`, 'openai-responses'],
  [
    '/openai/deployments/gpt-5/chat/completions',
    AZURE,
    `${AZURE}/openai/deployments/gpt-5/chat/completions`,
    'openai-chat',
  ],
  [
    '/openai/deployments/gpt-5/chat/completions',
    `${AZURE}/openai/v1`,
    `${AZURE}/openai/deployments/gpt-5/chat/completions`,
    'openai-chat',
  ],
  [
    '/v1/engines/copilot/chat/completions',
    'http://h/v1',
    'http://h/v1/engines/copilot/chat/completions',
    'openai-chat',
  ],
  // Claude on Foundry and on Bedrock's Mantle
  [
    '/anthropic/v1/messages',
    'https://r.services.ai.azure.com',
    'https://r.services.ai.azure.com/anthropic/v1/messages',
    'anthropic-messages',
  ],
  [
    '/v1/messages',
    'https://r.services.ai.azure.com/anthropic/v1',
    'https://r.services.ai.azure.com/anthropic/v1/messages',
    'anthropic-messages',
  ],
  // Gemini, its OpenAI route, Vertex AI
  [
    '/v1beta/models/g:streamGenerateContent',
    'https://g.googleapis.com/v1',
    'https://g.googleapis.com/v1beta/models/g:streamGenerateContent',
    'gemini',
    true,
  ],
  [
    '/v1beta/models/g:generateContent',
    'https://g.googleapis.com',
    'https://g.googleapis.com/v1beta/models/g:generateContent',
    'gemini',
    false,
  ],
  [
    '/v1/models/g:generateContent',
    'https://g.googleapis.com/v1beta',
    'https://g.googleapis.com/v1/models/g:generateContent',
    'gemini',
    false,
  ],
  [
    '/v1beta/openai/chat/completions',
    'https://g.googleapis.com/v1beta',
    'https://g.googleapis.com/v1beta/openai/chat/completions',
    'openai-chat',
  ],
  [
    '/v1beta/openai/chat/completions',
    'https://g.googleapis.com/v1beta/openai',
    'https://g.googleapis.com/v1beta/openai/chat/completions',
    'openai-chat',
  ],
  [
    `${VERTEX}/google/models/g:streamGenerateContent`,
    'https://v.googleapis.com/v1',
    `https://v.googleapis.com${VERTEX}/google/models/g:streamGenerateContent`,
    'gemini',
    true,
  ],
  [
    '/v1beta1/projects/p/locations/l/publishers/google/models/g:generateContent',
    'https://v.googleapis.com',
    'https://v.googleapis.com/v1beta1/projects/p/locations/l/publishers/google/models/g:generateContent',
    'gemini',
    false,
  ],
  [
    `${VERTEX}/anthropic/models/claude@1:streamRawPredict`,
    'https://v.googleapis.com/v1',
    `https://v.googleapis.com${VERTEX}/anthropic/models/claude@1:streamRawPredict`,
    'anthropic-messages',
    true,
  ],
  [
    `${VERTEX}/anthropic/models/claude@1:rawPredict`,
    'https://v.googleapis.com',
    `https://v.googleapis.com${VERTEX}/anthropic/models/claude@1:rawPredict`,
    'anthropic-messages',
    false,
  ],
  [
    '/v1/projects/p/locations/l/endpoints/openapi/chat/completions',
    'https://v.googleapis.com/v1',
    'https://v.googleapis.com/v1/projects/p/locations/l/endpoints/openapi/chat/completions',
    'openai-chat',
  ],
  // Bedrock: the escapes of an id stay as they are
  [
    '/model/anthropic.claude-v1%3A0/invoke-with-response-stream',
    'https://bedrock-runtime.eu.amazonaws.com',
    'https://bedrock-runtime.eu.amazonaws.com/model/anthropic.claude-v1%3A0/invoke-with-response-stream',
    'bedrock-messages',
    true,
  ],
  [
    '/model/arn%3Aaws%3Abedrock%2Fx/invoke',
    'https://b.amazonaws.com/v1',
    'https://b.amazonaws.com/model/arn%3Aaws%3Abedrock%2Fx/invoke',
    'bedrock-messages',
    false,
  ],
  // Ollama
  ['/api/chat', 'http://h:11434', 'http://h:11434/api/chat', 'ollama'],
  ['/api/generate', 'http://h:11434/v1', 'http://h:11434/api/generate', 'ollama'],
  ['/api/chat', 'http://h:11434/api', 'http://h:11434/api/chat', 'ollama'],
  // GitHub Copilot, OpenRouter
  [
    '/chat/completions',
    'https://api.githubcopilot.com',
    'https://api.githubcopilot.com/chat/completions',
    'openai-chat',
  ],
  ['/responses', 'https://api.githubcopilot.com', 'https://api.githubcopilot.com/responses', 'openai-responses'],
  [
    '/v1/messages',
    'https://api.githubcopilot.com/v1',
    'https://api.githubcopilot.com/v1/messages',
    'anthropic-messages',
  ],
  ['/api/v1/chat/completions', 'https://openrouter.ai', 'https://openrouter.ai/api/v1/chat/completions', 'openai-chat'],
  [
    '/api/v1/chat/completions',
    'https://openrouter.ai/api/v1',
    'https://openrouter.ai/api/v1/chat/completions',
    'openai-chat',
  ],
  [
    '/backend-api/codex/responses',
    'https://chatgpt.com',
    'https://chatgpt.com/backend-api/codex/responses',
    'openai-responses',
  ],
]

test('each provider’s path for an answer is healed, and has the right address at each upstream', () => {
  for (const [path, upstream, there, api, stream] of HEALED) {
    const route = modelRoute(path)
    assert.deepEqual([route?.api, route?.stream], [api, stream], path)
    assert.equal(addressOf(upstream, placeOf(path)), there, `${path} at ${upstream}`)
    assert.ok(isServed(path), path)
    assert.equal(errorApi(path), api, path)
    assert.ok(isLikeModelRoute(path.toUpperCase().replace('%3A', '%3a')), path)
    for (const careless of [`${path}/`, `/${path}`]) assert.equal(normalised(careless), path)
  }
})

test('every other path that asks a model for something is known as such, passes, and has its provider’s errors', () => {
  const paths: readonly (readonly [path: string, api: RelayApiName])[] = [
    ['/model/m/converse', 'bedrock-messages'],
    ['/model/m/converse-stream', 'bedrock-messages'],
    ['/v1internal:streamGenerateContent', 'gemini'],
    ['/v1internal:generateContent', 'gemini'],
    ['/v1beta/interactions', 'gemini'],
    ['/v1/projects/p/locations/l/publishers/mistralai/models/m:streamRawPredict', 'gemini'],
    ['/v1/completions', 'openai-chat'],
    ['/openai/deployments/gpt-5/completions', 'openai-chat'],
  ]
  for (const [path, api] of paths) {
    assert.deepEqual(
      [modelRoute(path), isServed(path), asksModel(path), errorApi(path)],
      [undefined, true, true, api],
      path,
    )
    assert.equal(addressOf('http://h/v1', placeOf(path)), `http://h${path.replace(/^\/openai\/v1/, '/v1')}`)
  }
})

test('what asks for no answer passes without a mark', () => {
  const paths = [
    '/v1/models',
    '/models',
    '/v1/messages/count_tokens',
    '/v1/threads/t/messages',
    '/v1beta/models/g:countTokens',
    '/v1/projects/p/locations/l/publishers/anthropic/models/count-tokens:rawPredict',
    '/v1internal:loadCodeAssist',
    '/api/tags',
    '/openai/v1/models',
    '/backend-api/codex/models',
  ]
  for (const path of paths)
    assert.deepEqual([modelRoute(path), asksModel(path), isServed(path)], [undefined, false, true], path)
})

test('no other path is served', () => {
  for (const path of [
    '/',
    '/v2/models',
    '/v10/x',
    '/V1/models',
    '/v1evil/x',
    '/api',
    '/api/v2/chat',
    '/model',
    '/backend-api/me',
    '/chat',
    '/chatx/completions',
  ])
    assert.equal(isServed(path), false, path)
})

test('a path made to be slow is read in time', () => {
  for (const unit of ['/', '/projects', 'publishers/google/', '/v1', 'a:', '%2F', '/endpoints/'])
    for (const start of ['/v1/', '/v1/projects/', '/model/', '/api/']) {
      const path = start + unit.repeat(65_536 / unit.length)
      for (const look of [modelRoute, isServed, asksModel, errorApi, isLikeModelRoute, normalised]) look(path)
    }
})
