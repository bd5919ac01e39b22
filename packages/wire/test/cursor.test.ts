import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import {
  formatCursor,
  openApiDocument,
  parseCursor,
  resumeFrom,
  turnCreateSchema,
  turnReceiptSchema,
} from '../src/index.ts'

test('a cursor that was given out comes back the same', () => {
  fc.assert(
    fc.property(fc.uuid(), fc.nat(), (journal, seq) => {
      assert.deepEqual(parseCursor(formatCursor(journal, seq)), { journal, seq })
    }),
  )
})

test('a bare seq, nothing at all, and nonsense', () => {
  assert.deepEqual(parseCursor('7'), { journal: null, seq: 7 })
  assert.deepEqual(parseCursor(7), { journal: null, seq: 7 })
  assert.deepEqual(parseCursor(undefined), { journal: null, seq: 0 })
  assert.deepEqual(parseCursor(''), { journal: null, seq: 0 })
  for (const bad of ['-1', 'x', '1.5', 'a-', '-', '1e9', '9'.repeat(20)]) assert.equal(parseCursor(bad), undefined, bad)
})

test('a cursor beyond the head or from another journal starts again and says why', () => {
  assert.deepEqual(resumeFrom({ journal: 'a', seq: 3 }, 'a', 5), { after: 3, reset: null })
  assert.deepEqual(resumeFrom({ journal: null, seq: 5 }, 'a', 5), { after: 5, reset: null })
  assert.deepEqual(resumeFrom({ journal: null, seq: 6 }, 'a', 5), { after: 0, reset: 'beyond_the_head' })
  assert.deepEqual(resumeFrom({ journal: 'b', seq: 3 }, 'a', 5), { after: 0, reset: 'another_journal' })
})

test('an OpenAPI document is made from the routes and their schemas', () => {
  const document = openApiDocument({ title: 't', version: '1' }, [
    {
      method: 'post',
      path: '/v1/sessions/{id}/turns',
      operationId: 'createTurn',
      summary: 'Prompt',
      body: turnCreateSchema,
      answers: { 202: turnReceiptSchema },
      faults: ['session_busy', 'idempotency_conflict', 'not_found'],
    },
    {
      method: 'get',
      path: '/v1/files/{path+}',
      operationId: 'file',
      summary: 'A file',
      answers: { 200: 'application/octet-stream' },
      open: true,
    },
  ]) as {
    openapi: string
    paths: Record<
      string,
      Record<
        string,
        {
          parameters: { name: string }[]
          responses: Record<string, { description: string }>
          requestBody?: object
          security?: unknown[]
        }
      >
    >
  }
  assert.equal(document.openapi, '3.1.0')
  const post = document.paths['/v1/sessions/{id}/turns']?.['post']
  assert.deepEqual(Object.keys(post?.responses ?? {}), ['202', '404', '409'])
  assert.equal(post?.responses['409']?.description, 'session_busy, idempotency_conflict')
  assert.match(JSON.stringify(post?.requestBody), /"prompt"/)
  assert.deepEqual(document.paths['/v1/files/{path}']?.['get']?.security, [])
})
