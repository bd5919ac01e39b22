/** The fields that a server asks for, as a person reads and fills them. Pure. */
import { isObject } from '@breakfall/faults/internal'
import type { AnswerValue, CallQuestion } from '../daemon-api.ts'

export type QuestionField = {
  readonly name: string
  /** `account (text; required)` */
  readonly label: string
  /** It may be left out. */
  readonly isOptional: boolean
  /** Undefined: the text is no value of this field. */
  readonly parse: (text: string) => AnswerValue[string] | undefined
}

export function fieldsOf({ schema }: Pick<CallQuestion, 'schema'>): readonly QuestionField[] {
  const { properties, required } = schema
  const needed: readonly unknown[] = Array.isArray(required) ? required : []
  return Object.entries(isObject(properties) ? properties : {}).map(([name, given]) => {
    const property = isObject(given) ? given : {}
    const { type, default: preset, title, description } = property
    const choices = choicesOf(type === 'array' && isObject(property['items']) ? property['items'] : property)
    const facts = [
      ...[title, description].filter((text) => typeof text === 'string'),
      choices.length > 0 ? choices.join(' | ') : (TYPES[String(type)] ?? 'text'),
      preset !== undefined
        ? `default: ${typeof preset === 'string' ? preset : JSON.stringify(preset)}`
        : needed.includes(name)
          ? 'required'
          : 'optional',
    ]
    const isOptional = preset !== undefined || !needed.includes(name)
    return { name, label: `${name} (${facts.join('; ')})`, isOptional, parse: (text) => parsed(text, type, choices) }
  })
}

/** The value of texts such as `name=Ada`, or only `Ada` if there is one field. A sentence says what is wrong. */
export function valueFrom(question: CallQuestion, texts: readonly string[]): AnswerValue | string {
  const fields = fieldsOf(question)
  const [only, ...others] = fields
  const value: AnswerValue = {}
  for (const text of texts) {
    const at = text.indexOf('=')
    const named = fields.find(({ name }) => at !== -1 && name === text.slice(0, at))
    const field = named ?? (others.length === 0 ? only : undefined)
    if (field === undefined) return `${text} names none of the fields ${listOf(fields)}`
    const got = field.parse(named === undefined ? text : text.slice(at + 1))
    if (got === undefined) return `${text} does not fit the field ${field.label}`
    value[field.name] = got
  }
  const missing = fields.filter(({ name, isOptional }) => !isOptional && !Object.hasOwn(value, name))
  return missing.length === 0 ? value : `The question needs ${listOf(missing)}`
}

// ---- details ----

const TYPES: Readonly<Record<string, string>> = {
  integer: 'whole number',
  number: 'number',
  boolean: 'yes | no',
  array: 'list with commas',
}

const listOf = (fields: readonly QuestionField[]): string => fields.map(({ name }) => name).join(', ')

/** Listed, or each with a title. */
function choicesOf({ enum: names, oneOf, anyOf }: Readonly<Record<string, unknown>>): readonly string[] {
  if (Array.isArray(names)) return names.map(String)
  const titled: unknown = oneOf ?? anyOf
  if (!Array.isArray(titled)) return []
  return titled.flatMap((choice: unknown) => (isObject(choice) && 'const' in choice ? [String(choice['const'])] : []))
}

function parsed(text: string, type: unknown, choices: readonly string[]): AnswerValue[string] | undefined {
  const isChoice = (one: string): boolean => choices.length === 0 || choices.includes(one)
  switch (type) {
    case 'integer':
    case 'number': {
      const number = text.trim() === '' ? Number.NaN : Number(text)
      return Number.isNaN(number) || (type === 'integer' && !Number.isInteger(number)) ? undefined : number
    }
    case 'boolean':
      return /^(?:y|yes|true)$/i.test(text) ? true : /^(?:n|no|false)$/i.test(text) ? false : undefined
    case 'array': {
      const items = text.split(',').map((item) => item.trim())
      return items.every(isChoice) ? items : undefined
    }
    default:
      return isChoice(text) ? text : undefined
  }
}
