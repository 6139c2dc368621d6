// Finds the object of an address, before CloudFront looks for it. A CloudFront function: it runs at the edge, with no module of Node.
// The addresses at the root of the page that are files; the list is written at synthesis. All others are routes of the page.
const FILES = [];

function handler(event) {
  const request = event.request;
  if (request.uri.startsWith("/ui/")) {
    if (request.uri.endsWith("/")) request.uri += "index.html";
  } else if (!FILES.includes(request.uri)) {
    request.uri = "/index.html";
  }
  return request;
}
