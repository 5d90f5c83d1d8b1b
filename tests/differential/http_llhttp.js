// SPDX-License-Identifier: MIT
// The parser inside Node (llhttp), asked directly. Standard input: JSON, [[hex, used], ...]; answer:
// for each, what it read of the whole bytes, and whether the first `used` bytes are a message by
// themselves and one byte fewer are not.
'use strict'
const { HTTPParser } = process.binding('http_parser')
const methods = require('http').METHODS && process.binding('http_parser').allMethods ||
  process.binding('http_parser').methods

function read(bytes) {
  const parser = new HTTPParser()
  const message = { headers: [], body: [], isDone: false, isHeadDone: false, error: null }
  parser.initialize(HTTPParser.REQUEST, {})
  parser[HTTPParser.kOnHeaders | 0] = (headers, url) => {
    if (message.isDone) return
    if (message.isHeadDone) return // trailers
    message.headers.push(...headers)
    if (url) message.target = url
  }
  parser[HTTPParser.kOnHeadersComplete | 0] = (major, minor, headers, method, url) => {
    if (message.isDone) return 0
    message.isHeadDone = true
    message.version = [major, minor]
    if (headers) message.headers.push(...headers)
    message.method = methods[method]
    if (url) message.target = url
    return 0
  }
  parser[HTTPParser.kOnBody | 0] = (piece) => {
    if (!message.isDone) message.body.push(Buffer.from(piece))
  }
  parser[HTTPParser.kOnMessageComplete | 0] = () => { message.isDone = true }
  const result = parser.execute(bytes)
  if (result instanceof Error && !message.isDone) message.error = result.code
  parser.close()
  message.body = Buffer.concat(message.body).toString('hex')
  message.headers = message.headers.map((text) => Buffer.from(text, 'latin1').toString('hex'))
  message.target = Buffer.from(message.target || '', 'latin1').toString('hex')
  return message
}

const cases = JSON.parse(require('fs').readFileSync(0, 'utf8'))
process.stdout.write(JSON.stringify(cases.map(([hex, used]) => {
  const bytes = Buffer.from(hex, 'hex')
  const message = read(bytes)
  if (used > 0) {
    message.isDoneAt = read(bytes.subarray(0, used)).isDone
    message.isDoneBefore = read(bytes.subarray(0, used - 1)).isDone
  }
  return message
})))
