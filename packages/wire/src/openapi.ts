/** An OpenAPI 3.1 document from the same schemas that check the requests. */
import { FAULTS, type FaultCategory, PROBLEM_CONTENT_TYPE } from '@breakfall/faults'
import { z } from 'zod'
import { problemSchema } from './fault-schema.ts'

export type OpenApiRoute = {
  readonly method: 'get' | 'post' | 'put' | 'patch' | 'delete'
  /** Parameters are in braces: `/v1/sessions/{id}`. A final `{path+}` matches the rest of the path. */
  readonly path: string
  readonly operationId: string
  readonly summary: string
  readonly query?: Readonly<Record<string, string>> | undefined
  readonly headers?: Readonly<Record<string, string>> | undefined
  readonly body?: z.ZodType | string | undefined
  /** By status: a schema for JSON, the events of a stream, a content type for anything else, null for no body. */
  readonly answers: Readonly<Record<number, z.ZodType | SseAnswer | string | null>>
  readonly faults?: readonly FaultCategory[] | undefined
  readonly open?: boolean | undefined
}

/** Server-sent events: the schema of the data, by the name of the event. */
export type SseAnswer = { readonly sse: Readonly<Record<string, z.ZodType>> }

export function openApiDocument(info: { title: string; version: string }, routes: readonly OpenApiRoute[]): object {
  const paths: Record<string, Record<string, object>> = {}
  for (const route of routes) {
    const path = route.path.replaceAll('+}', '}')
    paths[path] = { ...paths[path], [route.method]: operation(route) }
  }
  return {
    openapi: '3.1.0',
    info,
    paths,
    components: {
      securitySchemes: { token: { type: 'http', scheme: 'bearer' } },
      schemas: { Problem: jsonSchema(problemSchema), JsonObject: JSON_OBJECT },
    },
    security: [{ token: [] }],
  }
}

// ---- details ----

function operation(route: OpenApiRoute): object {
  const inPath = [...route.path.matchAll(/\{(\w+)\+?\}/g)].map(([, name]) => ({
    name,
    in: 'path',
    required: true,
    schema: { type: 'string' },
  }))
  return {
    operationId: route.operationId,
    summary: route.summary,
    ...(route.open === true ? { security: [] } : {}),
    parameters: [...inPath, ...parameters('query', route.query), ...parameters('header', route.headers)],
    ...(route.body === undefined ? {} : { requestBody: { required: true, content: content(route.body) } }),
    responses: { ...answers(route), ...problems(route.faults ?? []) },
  }
}

function parameters(where: 'query' | 'header', named: Readonly<Record<string, string>> = {}): readonly object[] {
  return Object.entries(named).map(([name, description]) => ({
    name,
    in: where,
    description,
    schema: { type: 'string' },
  }))
}

function answers(route: OpenApiRoute): Record<string, object> {
  return Object.fromEntries(
    Object.entries(route.answers).map(([status, answer]) => [
      status,
      {
        description: status.startsWith('2') ? 'Done' : 'Answer',
        ...(answer === null ? {} : { content: content(answer) }),
      },
    ]),
  )
}

function problems(categories: readonly FaultCategory[]): Record<string, object> {
  const byStatus = Map.groupBy(categories, (category) => FAULTS[category].http)
  return Object.fromEntries(
    [...byStatus].map(([status, list]) => [
      String(status),
      {
        description: list.join(', '),
        content: { [PROBLEM_CONTENT_TYPE]: { schema: { $ref: '#/components/schemas/Problem' } } },
      },
    ]),
  )
}

function content(answer: z.ZodType | SseAnswer | string): object {
  if (typeof answer === 'string') return { [answer]: { schema: { type: 'string' } } }
  if ('sse' in answer) return { 'text/event-stream': { schema: eventStreamSchema(answer) } }
  return { 'application/json': { schema: jsonSchema(answer) } }
}

/** One event of the stream: OpenAPI 3.1 has no word for a sequence of them. */
function eventStreamSchema({ sse }: SseAnswer): object {
  const event = (name: string, data: z.ZodType): object => ({
    type: 'object',
    properties: { id: { type: 'string' }, event: { const: name }, data: jsonSchema(data) },
    required: ['event', 'data'],
  })
  return { description: 'One event of the stream', oneOf: Object.entries(sse).map(([name, data]) => event(name, data)) }
}

const JSON_OBJECT_REF = '#/components/schemas/JsonObject'

/** A JSON value. TypeScript cannot follow a list that contains itself, so lists in lists are written out. */
const jsonValue = (depth: number): object => ({
  anyOf: [
    { type: ['string', 'number', 'boolean', 'null'] },
    { $ref: JSON_OBJECT_REF },
    ...(depth === 0 ? [] : [{ type: 'array', items: jsonValue(depth - 1) }]),
  ],
})

/** Any object, without a hole that generators of types fill with `unknown`. */
const JSON_OBJECT = { type: 'object', additionalProperties: jsonValue(4) }

const isAny = (schema: unknown): boolean =>
  typeof schema === 'object' && schema !== null && Object.keys(schema).length === 0

function jsonSchema(schema: z.ZodType): object {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, {
    unrepresentable: 'any',
    io: 'input',
    override: ({ jsonSchema: made }) => {
      delete made.readOnly // a TypeScript matter: our lists are immutable
      // More fields are allowed without this word as well; with it, generators give every type an index of `unknown`.
      if (!isAny(made.additionalProperties)) return
      delete made.additionalProperties
      if (Object.keys(made.properties ?? {}).length > 0) return
      delete made.type
      delete made.propertyNames
      made.$ref = JSON_OBJECT_REF // arguments of a tool
    },
  })
  return rest
}
